/* request.h: HTTP calls that a feed needs before or after it is dialled. */
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
	const char *const *headers; /* lines "Name: value", ended by NULL; NULL: none */
	const char *body;           /* NULL: none */
	size_t body_len;
};

struct request_answer {
	int status;       /* 0: the call failed, see reason */
	const char *body; /* ends with a NUL */
	size_t len;
	int64_t wait_ms; /* from Retry-After */
	const char *reason;
};

/* answer is valid during the callback. */
typedef void request_cb(void *arg, const struct request_answer *answer);

/* Uses --source-ca, --source-cert, --source-key, --source-proxy and --handshake-timeout of config, which must outlive
 * the result. Ignores proxies in the environment. */
struct requests *requests_open(uv_loop_t *loop, const struct config *config);

/* Starts a call; call is copied. cb is called exactly once, later, never from inside this call, within the timeout.
 * Returns NULL if libcurl refuses the call; cb is not called then. Redirects are not followed. */
struct request *request_send(struct requests *all, const struct request_call *call, request_cb *cb, void *arg);

/* cb will not be called. */
void request_cancel(struct request *r);

/* No call may be running. Run the loop until nothing is left to do. */
void requests_close(struct requests *all);

#endif
