/* hour.h: what this listener did in each of the last sixty minutes. */
#ifndef WSONCE_HOUR_H
#define WSONCE_HOUR_H

#include <jansson.h>
#include <stdint.h>

#include "base/counters.h"

#define HOUR_MINUTES 60

/* The counts of one minute. Latencies are upper bounds of commit_latency's buckets; -1 if nothing was stored. */
struct hour_minute {
	int64_t number; /* minutes since 1970; 0 if unused */
	int64_t received, stored, duplicates, dead_lettered;
	double p50_ms, p99_ms;
};

/* Initialize with zeros. */
struct hour {
	struct hour_minute minutes[HOUR_MINUTES]; /* at number % HOUR_MINUTES */
	int64_t current;                          /* number of the current minute; 0 before the first tick */
	int64_t began_s, began_ms;                /* its start, by both clocks of hour_tick */
	struct counters told;                     /* counters at its start */
	struct histogram latency;                 /* commit_latency at its start */
};

/* Call about once a second, with the time since 1970 and the loop clock. */
void hour_tick(struct hour *h, int64_t now_s, int64_t now_ms);

/* The completed minutes, oldest first: [number, received, stored, duplicates, dead letters, p50, p99]. p50 and p99 are
 * null if nothing was stored. */
json_t *hour_describe(const struct hour *h);

#endif
