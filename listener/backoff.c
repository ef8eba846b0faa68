/* backoff.c owns the arithmetic of waiting; whoever waits owns the timer. */
#include "backoff.h"

int64_t backoff_next(struct backoff *b, uint32_t random)
{
	unsigned int doublings = b->tries < 30 ? b->tries : 30;
	int64_t most = b->base_ms << doublings;

	b->tries++;
	if (most > b->cap_ms)
		most = b->cap_ms;
	return 1 + (int64_t)(random % (uint64_t)most);
}

void backoff_reset(struct backoff *b)
{
	b->tries = 0;
}
