/* backoff.h: how long to wait before the next try. Reads no clock. */
#ifndef WSONCE_BACKOFF_H
#define WSONCE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_GOOD_MS 30000 /* a connection that ended sooner was not a success */

struct backoff {
	int64_t base_ms;    /* upper bound of the first wait */
	int64_t cap_ms;     /* upper bound of any wait */
	unsigned int tries; /* since the last success */
};

/* Counts a try and returns the wait before it in milliseconds: exponential with full jitter, uniformly distributed from
 * 1 to min(cap, base * 2^tries). The jitter keeps a fleet that lost its server from coming back all at once (Brooker,
 * "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). random is uniformly distributed, too. */
int64_t backoff_next(struct backoff *b, uint32_t random);

/* Counts a try and returns the longest wait that backoff_next could draw for it. */
int64_t backoff_longest(struct backoff *b);

/* Returns a random number from the system, for backoff_next. */
uint32_t backoff_draw(void);

/* Call this after a success: the next wait is short again. */
void backoff_reset(struct backoff *b);

/* Call this when a connection has ended, with how long it lived. Resets b and returns true if it was a success. One
 * that brought no data was not: a server that accepts and hangs up must not be redialled without a wait. */
bool backoff_judge(struct backoff *b, bool has_brought, int64_t lived_ms);

#endif
