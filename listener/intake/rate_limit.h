/* rate_limit.h: how fast messages are sent to a feed. No I/O, no clock. */
#ifndef WSONCE_RATE_LIMIT_H
#define WSONCE_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_LIMIT_REPLIES 50   /* a second, at most, where the profile says nothing */
#define RATE_LIMIT_WAITING 1000 /* messages that may wait */

enum rate_limit_kind {
	RATE_LIMIT_OWN,   /* first words and pings */
	RATE_LIMIT_ACK,   /* of events */
	RATE_LIMIT_REPLY, /* to a frame: what a feed can provoke */
};

/* Of one connection; see rate_limit_init. */
struct rate_limit {
	double rate;    /* messages a second, of all kinds; 0: of replies alone, RATE_LIMIT_REPLIES */
	double allowed; /* now */
	int64_t at_ms;  /* when that was so */
	struct rate_limit_message *first;
	struct rate_limit_message **last;
	size_t waiting;
};

typedef void(rate_limit_cb)(void *arg, const char *text, size_t len);

void rate_limit_init(struct rate_limit *c, double rate_per_s, int64_t now_ms);
void rate_limit_clear(struct rate_limit *c);

/* Calls send with the message at once if it may go, or keeps a copy. Returns 0; or -1 if too many wait. */
int rate_limit_send(struct rate_limit *c, const char *text, size_t len, enum rate_limit_kind kind, int64_t now_ms,
		    rate_limit_cb *send, void *arg);

/* Sends what waits and may go by now. */
void rate_limit_resume(struct rate_limit *c, int64_t now_ms, rate_limit_cb *send, void *arg);

#endif
