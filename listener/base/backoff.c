/* backoff.c owns the arithmetic of waiting; whoever waits owns the timer. */
#include "base/backoff.h"

#include <uv.h>

int64_t backoff_next(struct backoff *b, uint32_t random)
{
	unsigned int doublings = b->tries < 30 ? b->tries : 30;
	int64_t most = b->base_ms << doublings;

	b->tries++;
	if (most > b->cap_ms)
		most = b->cap_ms;
	return 1 + (int64_t)(random % (uint64_t)most);
}

uint32_t backoff_draw(void)
{
	uint32_t random = 0;

	uv_random(NULL, NULL, &random, sizeof(random), 0, NULL);
	return random;
}

void backoff_reset(struct backoff *b)
{
	b->tries = 0;
}
