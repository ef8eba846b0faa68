/* counters.c holds the counters of the process. ops/ prints them. */
#include "base/counters.h"

_Thread_local struct counters counters;
bool has_reload_failed;
struct histogram commit_latency;
struct histogram duplicate_delay;

void histogram_observe(struct histogram *h, double ms)
{
	static const double bounds[] = HISTOGRAM_BOUNDS_MS;
	int i = 0;

	if (ms < 0)
		ms = 0;
	while (i < HISTOGRAM_BUCKETS - 1 && ms > bounds[i])
		i++;
	h->buckets[i]++;
	h->count++;
	h->sum_ms += ms;
}

void counters_each(void (*put)(void *arg, const char *name, const char *meaning, uint64_t value), void *arg)
{
#define X(name, meaning) put(arg, #name, meaning, counters.name);
	COUNTERS(X)
#undef X
}
