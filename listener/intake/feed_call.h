/* feed_call.h: an HTTP call that a profile describes: its URL, headers and body are templates. */
#ifndef WSONCE_FEED_CALL_H
#define WSONCE_FEED_CALL_H

#include <stdbool.h>

#include "feed/session.h"
#include "net/request.h"

#define FEED_CALL_REASON 300

/* Calls add for each header line of the templates; text is on the heap, and add takes ownership. If a header cannot be
 * sent, sets why to the reason. is_own: from reach_fault(); other hosts get no headers with secrets. */
void feed_call_headers(struct session *s, const json_t *headers, bool is_own, void (*add)(void *to, char *text),
		       void *to, char why[FEED_CALL_REASON]);

/* Starts the call; cb as in request_send(). Returns NULL, and why, if it cannot be made. */
struct request *feed_call_send(struct requests *requests, const struct profile *p, struct session *s,
			       const struct profile_http *http, request_cb *cb, void *arg, char why[FEED_CALL_REASON]);

/* Returns true for a status of 2xx; else sets why to the server's answer. */
bool feed_call_succeeded(const struct request_answer *answer, char why[FEED_CALL_REASON]);

/* True if this HTTP status refuses whoever asks, not what is asked: 401, 403 or 407. */
static inline bool feed_call_is_about_access(int status)
{
	return status == 401 || status == 403 || status == 407;
}

#endif
