/* sentinel.h: asks sentinels, one at a time and repeatedly, where the master is. */
#ifndef WSONCE_REDIS_SENTINEL_H
#define WSONCE_REDIS_SENTINEL_H

#include "redis/address.h"

#include <uv.h>

#include "base/tls.h"

struct sentinel;

/* Called from the loop with each answer. host is valid during the call. */
typedef void(sentinel_named_cb)(void *owner, const char *host, int port);
/* Called when no sentinel answers or knows the master. why is valid during the call. */
typedef void(sentinel_failed_cb)(void *owner, const char *why);

/* Begins to ask, twice a second. address and trust (NULL without TLS) must outlive s. */
struct sentinel *sentinel_open(uv_loop_t *loop, const struct redis_address *address, const struct tls_trust *trust,
			       sentinel_named_cb *on_named, sentinel_failed_cb *on_failed, void *owner);

/* While is_urgent, because the master is gone, asks five times as often. */
void sentinel_hurry(struct sentinel *s, bool is_urgent);

/* done is called from the loop when s is closed and about to be freed. */
void sentinel_close(struct sentinel *s, void (*done)(void *arg), void *arg);

#endif
