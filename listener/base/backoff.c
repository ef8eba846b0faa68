/* backoff.c computes waits. Its callers own the timers. */
#include "base/backoff.h"

#include <uv.h>

int64_t backoff_longest(struct backoff *b)
{
	unsigned int doublings = b->tries < 30 ? b->tries : 30;
	int64_t most = b->base_ms << doublings;

	b->tries++;
	return most < b->cap_ms ? most : b->cap_ms;
}

int64_t backoff_next(struct backoff *b, uint32_t random)
{
	return 1 + (int64_t)(random % (uint64_t)backoff_longest(b));
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

bool backoff_judge(struct backoff *b, bool has_brought, int64_t lived_ms)
{
	if (!has_brought || lived_ms < BACKOFF_GOOD_MS)
		return false;
	backoff_reset(b);
	return true;
}
