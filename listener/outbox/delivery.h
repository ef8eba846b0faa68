/* delivery.h: requests to webhooks, many at once. Each is one attempt. */
#ifndef WSONCE_DELIVERY_H
#define WSONCE_DELIVERY_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "outbox/target.h"
#include "config/webhook.h"

struct deliveries;
struct delivery;

struct delivery_request {
	const struct webhook *webhook;
	const char *id;        /* webhook-id, and Idempotency-Key */
	const char *timestamp; /* time of the attempt, seconds since 1970 */
	const char *body;      /* JSON; must stay until the request has ended */
	size_t len;
	const char *trace; /* traceparent of the event; NULL: none */
};

/* answer is valid during the call. Its reason is the start of the body as UTF-8 without NUL, the target of a redirect,
 * or what went wrong if there was no answer. */
typedef void delivery_cb(void *arg, const struct target_answer *answer);

/* connections: how many may stay open for reuse. */
struct deliveries *deliveries_open(uv_loop_t *loop, size_t connections);

/* Begins a request. Calls cb exactly once, later, never from inside this call, at the latest after the webhook's
 * timeout plus the loop's delay. Returns NULL if libcurl refuses the request; then cb is never called. */
struct delivery *delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
			       void *arg);

/* Ends a request without calling cb. The receiver may have got it or not. */
void delivery_cancel(struct delivery *d);

/* Makes the next request read certificate files again, and sets how many connections may stay open. */
void deliveries_change(struct deliveries *all, size_t connections);

/* Call when no request is in progress. done is called from the loop when everything is freed. */
void deliveries_close(struct deliveries *all, void (*done)(void *arg), void *arg);

#endif
