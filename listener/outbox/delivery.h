/* delivery.h: requests to webhooks, many at once, each of which is one attempt. */
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
	const char *timestamp; /* seconds since 1970, of the attempt */
	const char *body;      /* JSON; must stay until the request has ended */
	size_t len;
	const char *trace; /* traceparent, of the event; NULL: none */
};

/* answer lives for the call; its reason is the head of the answer's body as valid UTF-8 without NUL, or what
 * went wrong if there was no answer. */
typedef void delivery_cb(void *arg, const struct target_answer *answer);

/* connections is how many may stay open for the next request. */
struct deliveries *deliveries_open(uv_loop_t *loop, size_t connections);

/* Begins a request. Calls cb exactly once, later, never from inside this call, and not after the webhook's
 * timeout and the loop's delay; or returns NULL if libcurl refuses it, and cb is never called. */
struct delivery *delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
			       void *arg);

/* Ends a request without its callback. Whether it arrived is not known. */
void delivery_cancel(struct delivery *d);

/* From the next request on files of certificates are read again, and so many connections may stay open. */
void deliveries_change(struct deliveries *all, size_t connections);

/* No request may be at work. done is called from the loop when nothing is left. */
void deliveries_close(struct deliveries *all, void (*done)(void *arg), void *arg);

#endif
