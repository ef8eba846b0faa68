/* producer_credit.h: how much garbage a producer may send before it is paused, and then disconnected. Garbage is a
 * message that is not an event. No I/O. */
#ifndef WSONCE_PRODUCER_CREDIT_H
#define WSONCE_PRODUCER_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"

#define PRODUCER_CREDIT          1000 /* garbage messages, less events, before a pause */
#define PRODUCER_CREDIT_AGAIN    100  /* credit after a pause */
#define PRODUCER_CREDIT_SAVED    9000 /* most credit that events can add; messages settle out of order */
#define PRODUCER_CREDIT_PAUSES   5    /* at the last one the producer is disconnected */
#define PRODUCER_CREDIT_PAUSE_MS 500
#define PRODUCER_CREDIT_BYTES    1024 /* garbage costs one more credit for each of these */
#define PRODUCER_CREDIT_MOST     64   /* upper limit of that surcharge: a dead letter keeps no more bytes */

/* For one connection. Starts as all zeros. */
struct producer_credit {
	int spent;           /* credit used; negative if events outnumber garbage */
	unsigned int pauses; /* number of pauses since spent was last 0 or less */
	bool is_paused;
};

enum producer_credit_verdict {
	PRODUCER_GO_ON,
	PRODUCER_PAUSE, /* stop reading until producer_credit_resume */
	PRODUCER_END,   /* disconnect */
};

/* The cost of a garbage message of this size. */
int producer_credit_cost(size_t bytes);
/* The cost of an event that has settled; 0 unless it was refused on arrival. Events that a handler, a trigger or
 * another listener refuses are not garbage. */
int producer_credit_cost_of(const struct event *ev, enum outcome outcome);

/* Counts one settled message: an event (cost 0) or garbage. Events take longer to settle than garbage, so `unanswered`
 * messages count in the producer's favour. Garbage is not counted during a pause: it was read before. */
enum producer_credit_verdict producer_credit_take(struct producer_credit *p, int cost, size_t unanswered);

void producer_credit_resume(struct producer_credit *p);

/* True if the producer may be read while this many of its messages are unanswered. After a pause it may have no more of
 * them than it has credit. */
bool producer_credit_allows(const struct producer_credit *p, size_t unanswered);

/* Counts one settled message (an event if cost is 0) in the debt that all connections and requests of one token share.
 * The debt is the time (loop clock) at which it is paid off, at PRODUCER_CREDIT_AGAIN messages per
 * PRODUCER_CREDIT_PAUSE_MS. */
void producer_debt_note(int64_t *debt_ms, int cost, int64_t now_ms);
/* True if the debt is more than `times` times PRODUCER_CREDIT messages. Then the producer must not send. */
bool producer_debt_is_over(int64_t debt_ms, int times, int64_t now_ms);

#endif
