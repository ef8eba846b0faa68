/* lags.c owns the buckets of the histogram: 0 to 7 ms, then four per power of two, and the same below 0. */
#include "event/lags.h"

#include <stddef.h>

static size_t bucket_of(uint64_t ms)
{
	size_t power = 63 - (size_t)__builtin_clzll(ms | 1);

	return ms < 8 ? ms : 4 * (power - 2) + (ms >> (power - 2));
}

/* Returns the middle of a bucket. */
static int value_of(size_t bucket)
{
	size_t power = bucket / 4 - 1;

	return (int)(bucket < 8 ? bucket : ((4 + bucket % 4) << power) + (1U << power) / 2);
}

void lags_add(struct lags *l, int64_t ms, uint64_t count)
{
	uint64_t far = (uint64_t)(ms < 0 ? -ms : ms);
	size_t bucket = bucket_of(far < LAGS_MOST_MS ? far : LAGS_MOST_MS);

	l->counts[ms < 0 ? LAGS_BUCKETS - 1 - bucket : LAGS_BUCKETS - 1 + bucket] += count;
}

bool lags_percentile(const struct lags *l, unsigned int percent, int *ms)
{
	const size_t n = sizeof(l->counts) / sizeof(*l->counts), zero = LAGS_BUCKETS - 1;
	uint64_t all = 0, rest;
	size_t i = 0;

	for (size_t k = 0; k < n; k++)
		all += l->counts[k];
	rest = all * percent / 100;
	while (i < n - 1 && l->counts[i] <= rest)
		rest -= l->counts[i++];
	*ms = i < zero ? -value_of(zero - i) : value_of(i - zero);
	return all;
}
