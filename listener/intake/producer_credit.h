/* producer_credit.h: how long a producer is listened to that sends what is no event. No I/O. */
#ifndef WSONCE_PRODUCER_CREDIT_H
#define WSONCE_PRODUCER_CREDIT_H

#include <stdbool.h>
#include <stddef.h>

#define PRODUCER_CREDIT       1000 /* messages that are no events, less those that are, before a producer has to rest; */
#define PRODUCER_CREDIT_AGAIN 100  /* after which it has so many */
#define PRODUCER_CREDIT_SAVED \
	9000 /* by events, at most, since messages do not settle in the order in which they came */
#define PRODUCER_CREDIT_PAUSES   5 /* of rest, at the last of which it has to go */
#define PRODUCER_CREDIT_PAUSE_MS 500
#define PRODUCER_CREDIT_BYTES    1024 /* of a message that is no event cost as much as one more; */
#define PRODUCER_CREDIT_MOST     64   /* but so many at most, since no more of it is kept */

/* Of one producer; zero at first. */
struct producer_credit {
	int spent;           /* of the credit; negative: events were more */
	unsigned int pauses; /* since nothing was spent */
	bool is_paused;
};

enum producer_credit_verdict {
	PRODUCER_GO_ON,
	PRODUCER_PAUSE, /* is not read from until producer_credit_resume */
	PRODUCER_END,   /* is to be disconnected */
};

/* What a message of so many bytes costs that is no event. */
int producer_credit_cost(size_t bytes);

/* One message is settled: it was an event (cost 0), or it was none. What is still unanswered may be events, which take
 * longer, so it counts for the producer. During a rest nothing is counted: what was read before it cannot be helped. */
enum producer_credit_verdict producer_credit_take(struct producer_credit *p, int cost, size_t unanswered);

void producer_credit_resume(struct producer_credit *p);

/* May the producer be read from while so many of its messages are unanswered? Who had to rest before is read from only
 * as far as its credit goes. */
bool producer_credit_allows(const struct producer_credit *p, size_t unanswered);

#endif
