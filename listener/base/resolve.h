/* resolve.h: host names to addresses without blocking the loop. */
#ifndef WSONCE_RESOLVE_H
#define WSONCE_RESOLVE_H

#include <uv.h>

struct resolve;

/* Called once, from the loop: address is a numeric IPv4 or IPv6 address that lives for the call,
 * or NULL, and error then says why. */
typedef void(resolve_cb)(void *arg, const char *address, const char *error);

/* Looks host up. A host may have several addresses, as localhost often has ::1 and 127.0.0.1, and the server may listen
 * on one only: nth says which, counted round, so a caller passes how many attempts have failed. cb is called later,
 * never from inside this call. Returns a handle that is valid until cb, or NULL if no lookup can be begun, and cb is
 * then never called. */
struct resolve *resolve_start(uv_loop_t *loop, const char *host, unsigned int nth, resolve_cb *cb, void *arg);

/* cb will not be called any more. */
void resolve_cancel(struct resolve *r);

#endif
