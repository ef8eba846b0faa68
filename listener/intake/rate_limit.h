/* rate_limit.h: limits how fast messages are sent to a feed. No I/O, no clock. */
#ifndef WSONCE_RATE_LIMIT_H
#define WSONCE_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define RATE_LIMIT_REPLIES 50         /* per second, if the profile sets no rate */
#define RATE_LIMIT_WAITING 1000       /* replies that may be queued */
#define RATE_LIMIT_BYTES   (16 << 20) /* bytes of all that may be queued: they may repeat what the feed has sent */

enum rate_limit_kind {
	RATE_LIMIT_REPLY, /* answers to frames: the feed decides how many */
	RATE_LIMIT_PING,
	RATE_LIMIT_OWN,      /* our first messages, and those about a list */
	RATE_LIMIT_ACK,      /* for events */
	RATE_LIMIT_LAST_ACK, /* the same, and it covers all acks before it */
};

/* Messages in the first queue are sent first. */
enum rate_limit_queue { RATE_LIMIT_REPLIES_AND_PINGS, RATE_LIMIT_OWNS, RATE_LIMIT_ACKS, RATE_LIMIT_QUEUES };

/* For one connection; see rate_limit_init. */
struct rate_limit {
	bool is_for_all; /* there is a rate, for all kinds; false: RATE_LIMIT_REPLIES, replies only */
	size_t most;     /* messages in window_ms */
	int64_t window_ms;
	int64_t *sent_ms; /* when the last ones were sent, a ring */
	size_t at;        /* the oldest of them */
	struct list queues[RATE_LIMIT_QUEUES];
	size_t waiting[RATE_LIMIT_QUEUES]; /* messages in each */
	size_t bytes;                      /* of all */
};

typedef void(rate_limit_cb)(void *arg, const char *text, size_t len);

void rate_limit_init(struct rate_limit *c, double rate_per_s);
void rate_limit_clear(struct rate_limit *c);

/* Calls send at once if the rate allows it, else queues a copy. Returns 0, or -1 if the queue is full. Acks and our own
 * messages fill it only by their bytes: thousands of events may be stored together (stop reading when many acks wait),
 * and a list may have thousands of items. Replies and pings go before them, since a heartbeat must not be late. */
int rate_limit_send(struct rate_limit *c, const char *text, size_t len, enum rate_limit_kind kind, int64_t now_ms,
		    rate_limit_cb *send, void *arg);

/* Sends the queued messages that the rate allows now. */
void rate_limit_resume(struct rate_limit *c, int64_t now_ms, rate_limit_cb *send, void *arg);

#endif
