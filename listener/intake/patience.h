/* patience.h: how long a producer is listened to that sends what is no event. No I/O. */
#ifndef WSONCE_PATIENCE_H
#define WSONCE_PATIENCE_H

#include <stdbool.h>
#include <stddef.h>

#define PATIENCE_CREDIT  1000 /* messages that are no events, less those that are, before a producer has to rest; */
#define PATIENCE_AGAIN   100  /* after which it has so many */
#define PATIENCE_SAVED   9000 /* by events, at most, since messages do not settle in the order in which they came */
#define PATIENCE_SPELLS  5    /* of rest, at the last of which it has to go */
#define PATIENCE_REST_MS 500
#define PATIENCE_BYTES   1024 /* of a message that is no event cost as much as one more; */
#define PATIENCE_MOST    64   /* but so many at most, since no more of it is kept */

/* Of one producer; zero at first. */
struct patience {
	int spent;           /* of the credit; negative: events were more */
	unsigned int spells; /* since nothing was spent */
	bool is_resting;
};

enum patience_verdict {
	PATIENCE_GO_ON,
	PATIENCE_REST, /* is not read from until patience_rested */
	PATIENCE_END,  /* is to be disconnected */
};

/* What a message of so many bytes costs that is no event. */
int patience_cost(size_t bytes);

/* One message is settled: it was an event (cost 0), or it was none. What is still unanswered may be events, which take
 * longer, so it counts for the producer. During a rest nothing is counted: what was read before it cannot be helped. */
enum patience_verdict patience_take(struct patience *p, int cost, size_t unanswered);

void patience_rested(struct patience *p);

/* May the producer be read from while so many of its messages are unanswered? Who had to rest before is read from only
 * as far as its credit goes. */
bool patience_allows(const struct patience *p, size_t unanswered);

#endif
