/* request.h: single HTTP calls that a feed needs before or while it is dialled. */
#ifndef WSONCE_REQUEST_H
#define WSONCE_REQUEST_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"

struct requests;
struct request;

struct request_call {
	const char *method;
	const char *url;            /* http:// or https:// */
	const char *const *headers; /* lines "Name: value", NULL behind the last; NULL: none */
	const char *body;           /* NULL: none */
	size_t body_len;
};

struct request_answer {
	int status;       /* 0: there is none, and reason says why */
	const char *body; /* NUL behind it */
	size_t len;
	int64_t wait_ms; /* that it asks to be left alone */
	const char *reason;
};

/* answer lives for the call. */
typedef void request_cb(void *arg, const struct request_answer *answer);

/* Uses --source-ca, --source-cert, --source-key, --source-proxy and --handshake-timeout of config, which must outlive
 * it, and no proxy of the environment. */
struct requests *requests_open(uv_loop_t *loop, const struct config *config);

/* Begins a call, of which copies are made. Calls cb exactly once, later, never from inside this call, within the
 * timeout; or returns NULL if libcurl refuses it, and cb is never called. Redirects are not followed. */
struct request *request_send(struct requests *all, const struct request_call *call, request_cb *cb, void *arg);

/* cb is not called any more. */
void request_cancel(struct request *r);

/* No call may be at work. The loop must be run until it has nothing more to do. */
void requests_close(struct requests *all);

#endif
