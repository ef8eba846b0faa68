/* hour.c owns the last hour of a listener, minute by minute. Each check-in reports it to the database (report.c), so
 * that the dashboard can show an hour as soon as it is opened. */
#include "ops/hour.h"

#include <stdbool.h>
#include <stdlib.h>

#define SET_MS 3000 /* if the clocks drift apart by more than this in a minute, one was set */

/* Returns an upper bound of this quantile of the values that a histogram got between two states, at most its last
 * bound; -1 if it got none. */
static double find_share(const struct histogram *now, const struct histogram *then, double share)
{
	static const double bounds[] = HISTOGRAM_BOUNDS_MS;
	double wanted = (double)(now->count - then->count) * share, sum = 0;
	int i = 0;

	if (now->count == then->count)
		return -1;
	for (; i < HISTOGRAM_BUCKETS - 2; i++) {
		sum += (double)(now->buckets[i] - then->buckets[i]);
		if (sum >= wanted)
			break;
	}
	return bounds[i];
}

static void keep(struct hour *h)
{
	h->minutes[h->current % HOUR_MINUTES] = (struct hour_minute){
		.number = h->current,
		.received = (int64_t)(counters.received - h->told.received),
		.stored = (int64_t)(counters.persisted - h->told.persisted),
		.duplicates = (int64_t)(counters.duplicates - h->told.duplicates),
		.dead_lettered = (int64_t)(counters.dead_lettered - h->told.dead_lettered),
		.p50_ms = find_share(&commit_latency, &h->latency, 0.5),
		.p99_ms = find_share(&commit_latency, &h->latency, 0.99),
	};
}

/* If the system clock was set during a minute, that minute is dropped, because its length is unknown. */
void hour_tick(struct hour *h, int64_t now_s, int64_t now_ms)
{
	int64_t minute = now_s / 60;
	bool was_set = llabs((now_s - h->began_s) * 1000 - (now_ms - h->began_ms)) > SET_MS;

	if (minute == h->current)
		return;
	if (h->current && !was_set)
		keep(h);
	if (h->current) { /* the first minute has what was counted before the first tick, too */
		h->told = counters;
		h->latency = commit_latency;
	}
	h->current = minute;
	h->began_s = now_s;
	h->began_ms = now_ms;
}

static json_t *describe_ms(double ms)
{
	return ms < 0 ? json_null() : json_real(ms);
}

json_t *hour_describe(const struct hour *h)
{
	json_t *all = json_array();

	for (int64_t n = h->current - HOUR_MINUTES; h->current && n < h->current; n++) {
		const struct hour_minute *m = &h->minutes[n % HOUR_MINUTES];

		if (m->number == n)
			json_array_append_new(all, json_pack("[I, I, I, I, I, o, o]", (json_int_t)n,
							     (json_int_t)m->received, (json_int_t)m->stored,
							     (json_int_t)m->duplicates, (json_int_t)m->dead_lettered,
							     describe_ms(m->p50_ms), describe_ms(m->p99_ms)));
	}
	return all;
}
