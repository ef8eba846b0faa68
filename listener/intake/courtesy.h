/* courtesy.h: how fast messages are sent to a feed. No I/O, no clock. */
#ifndef WSONCE_COURTESY_H
#define WSONCE_COURTESY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COURTESY_REPLIES 50   /* a second, at most, where the profile says nothing */
#define COURTESY_WAITING 1000 /* messages that may wait */

enum courtesy_kind {
	COURTESY_OWN,   /* first words and pings */
	COURTESY_ACK,   /* of events */
	COURTESY_REPLY, /* to a frame: what a feed can provoke */
};

/* Of one connection; see courtesy_init. */
struct courtesy {
	double rate;    /* messages a second, of all kinds; 0: of replies alone, COURTESY_REPLIES */
	double allowed; /* now */
	int64_t at_ms;  /* when that was so */
	struct courtesy_message *first;
	struct courtesy_message **last;
	size_t waiting;
};

typedef void(courtesy_cb)(void *arg, const char *text, size_t len);

void courtesy_init(struct courtesy *c, double rate_per_s, int64_t now_ms);
void courtesy_clear(struct courtesy *c);

/* Calls send with the message at once if it may go, or keeps a copy. Returns 0; or -1 if too many wait. */
int courtesy_say(struct courtesy *c, const char *text, size_t len, enum courtesy_kind kind, int64_t now_ms,
		 courtesy_cb *send, void *arg);

/* Sends what waits and may go by now. */
void courtesy_go_on(struct courtesy *c, int64_t now_ms, courtesy_cb *send, void *arg);

#endif
