/* hour.h: what this listener has done in each of the last sixty minutes. */
#ifndef WSONCE_HOUR_H
#define WSONCE_HOUR_H

#include <jansson.h>
#include <stdint.h>

#include "base/counters.h"

#define HOUR_MINUTES 60

/* Of a whole minute. Latencies are upper bounds of commit_latency's buckets; -1: nothing was stored. */
struct hour_minute {
	int64_t number; /* since 1970; 0: there is none */
	int64_t received, stored, duplicates, dead_lettered;
	double p50_ms, p99_ms;
};

/* Zero is one that begins now. */
struct hour {
	struct hour_minute minutes[HOUR_MINUTES]; /* by their number */
	int64_t at_hand;                          /* the minute that is not over; 0: none has begun */
	int64_t began_s, began_ms;                /* when it began, by both clocks of hour_tick */
	struct counters told;
	struct histogram latency; /* both: when it began */
};

/* To be called about once a second, with the time since 1970 and the loop clock. */
void hour_tick(struct hour *h, int64_t now_s, int64_t now_ms);

/* The minutes that are over, the oldest first: [number, received, stored, duplicates, dead letters, p50, p99]; the last
 * two are null where nothing was stored. */
json_t *hour_describe(const struct hour *h);

#endif
