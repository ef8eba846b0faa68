/* backoff.h: how long to wait before the next try; no clock. */
#ifndef WSONCE_BACKOFF_H
#define WSONCE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_GOOD_MS 30000 /* a shorter connection was no success, */

struct backoff {
	int64_t base_ms;    /* upper bound of the first wait */
	int64_t cap_ms;     /* upper bound of any wait */
	unsigned int tries; /* since the last success */
};

/* The next wait in milliseconds: exponential with full jitter, that is, evenly drawn from 1 to
 * min(cap, base * 2^tries), so that a fleet that lost the same server does not come back as one
 * (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). random is any
 * evenly distributed number. */
int64_t backoff_next(struct backoff *b, uint32_t random);

/* The longest wait that could be drawn, as a try that is counted. */
int64_t backoff_longest(struct backoff *b);

/* Such a number, from the system. */
uint32_t backoff_draw(void);

/* After a success: the next wait is short again. */
void backoff_reset(struct backoff *b);

/* nor one that brought nothing: a server that greets and hangs up would be dialled without end. A connection has ended
 * that lived so long; returns whether it was a success. */
bool backoff_judge(struct backoff *b, bool has_brought, int64_t lived_ms);

#endif
