/* resolve.h: looks up host names without blocking the loop. */
#ifndef WSONCE_RESOLVE_H
#define WSONCE_RESOLVE_H

#include <uv.h>

struct resolve;

/* Called once, from the loop. addresses has numeric IPv4 and IPv6 addresses, separated by spaces, and is valid during
 * the call; or NULL, and error says why. */
typedef void(resolve_cb)(void *arg, const char *addresses, const char *error);

/* Looks up host. A host may have several addresses, as localhost often has ::1 and 127.0.0.1, and the server may listen
 * on only one. nth selects the one to return first, modulo their number; callers pass the number of failed
 * attempts. cb is called later, never from inside this call. Returns a handle that is valid until cb is called; or NULL
 * if the lookup cannot start, and cb is never called. */
struct resolve *resolve_start(uv_loop_t *loop, const char *host, unsigned int nth, resolve_cb *cb, void *arg);

/* Ends the lookup; cb is not called. r is no longer valid. */
void resolve_cancel(struct resolve *r);

#endif
