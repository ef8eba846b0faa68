/* sentinel.h: where the master is, asked of sentinels, one at a time, again and again. */
#ifndef WSONCE_REDIS_SENTINEL_H
#define WSONCE_REDIS_SENTINEL_H

#include "redis/address.h"

#include <uv.h>

#include "base/tls.h"

struct sentinel;

/* Called from the loop with each answer; host lives for the call. */
typedef void(sentinel_named_cb)(void *owner, const char *host, int port);
/* None of them answers, or knows the master; why lives for the call. */
typedef void(sentinel_failed_cb)(void *owner, const char *why);

/* Begins to ask, each half second. address and trust (NULL: no TLS) must live as long. */
struct sentinel *sentinel_open(uv_loop_t *loop, const struct redis_address *address, const struct tls_trust *trust,
			       sentinel_named_cb *on_named, sentinel_failed_cb *on_failed, void *owner);

/* The master is gone: asks five times as often until it is told otherwise. */
void sentinel_hurry(struct sentinel *s, bool is_urgent);

/* done is called from the loop when nothing of s is left. */
void sentinel_close(struct sentinel *s, void (*done)(void *arg), void *arg);

#endif
