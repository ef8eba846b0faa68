/* stats.c owns the counters of the process; how they are shown is admin's business. */
#include "base/stats.h"

struct stats stats;
struct histogram stats_commit_latency;
struct histogram stats_duplicate_delay;

void stats_observe(struct histogram *h, double ms)
{
	static const double bounds[] = STATS_BOUNDS_MS;
	int i = 0;

	if (ms < 0)
		ms = 0;
	while (i < STATS_BUCKETS - 1 && ms > bounds[i])
		i++;
	h->buckets[i]++;
	h->count++;
	h->sum_ms += ms;
}

void stats_each(void (*put)(void *arg, const char *name, const char *meaning, uint64_t value), void *arg)
{
#define X(name, meaning) put(arg, #name, meaning, stats.name);
	STATS_COUNTERS(X)
#undef X
}
