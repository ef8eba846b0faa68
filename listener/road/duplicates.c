/* duplicates.c owns what is counted about copies, until checkin.c has told it to the database, where it is
 * added up for the fleet and for years.
 *
 * Different events are counted by a HyperLogLog sketch: each id's hash picks one byte, which keeps the
 * longest run of zero bits that such a hash began with. Sketches of several listeners and days are put
 * together by the greater of each two bytes, so an event that every listener got twice counts once. */
#include "road/duplicates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/counters.h"

#define INDEX_BITS 10  /* 1 << INDEX_BITS is DUPLICATES_SKETCH */
#define LATE_MAX   500 /* ids kept for a question to Postgres; more are drawn from by lot */

/* A copy that only the unique key found. */
struct late {
	char *id;
	size_t len;
	int64_t came_ms;
};

static uint64_t delays[DUPLICATES_DELAYS];
static unsigned char sketch[DUPLICATES_SKETCH];
static struct late late[LATE_MAX];
static uint64_t late_total;
static uint64_t lot = 1; /* state of the drawing */

static void put_in_sketch(const char *id, size_t len)
{
	uint64_t h = hash_mix(hash_text(id, len));
	size_t at = h >> (64 - INDEX_BITS);
	/* The bit that is set ends the run for a hash of nothing but zeros. */
	unsigned char run = (unsigned char)(__builtin_clzll(h << INDEX_BITS | 1ULL << (INDEX_BITS - 1)) + 1);

	if (sketch[at] < run)
		sketch[at] = run;
}

void duplicates_seen(const char *id, size_t len, int64_t delay_ms)
{
	int bucket = delay_ms < 1 ? 0 : 64 - __builtin_clzll((unsigned long long)delay_ms);

	histogram_observe(&duplicate_delay, (double)delay_ms);
	delays[bucket < DUPLICATES_DELAYS ? bucket : DUPLICATES_DELAYS - 1]++;
	put_in_sketch(id, len);
}

/* Each of all late copies has the same chance to be among those that are kept. */
void duplicates_late(const char *id, size_t len, int64_t now_ms)
{
	size_t at = late_total++;
	char *kept;

	put_in_sketch(id, len);
	if (at >= LATE_MAX) {
		lot = hash_mix(lot + 0x9e3779b97f4a7c15ULL);
		at = lot % late_total;
	}
	if (at >= LATE_MAX || !(kept = malloc(len)))
		return;
	memcpy(kept, id, len);
	free(late[at].id);
	late[at] = (struct late){.id = kept, .len = len, .came_ms = now_ms};
}

static json_t *describe_delays(void)
{
	json_t *all = json_array();

	for (int i = 0; i < DUPLICATES_DELAYS; i++)
		json_array_append_new(all, json_integer((json_int_t)delays[i]));
	return all;
}

static json_t *describe_sketch(void)
{
	char hex[2 * DUPLICATES_SKETCH + 1];

	for (size_t i = 0; i < DUPLICATES_SKETCH; i++)
		snprintf(hex + 2 * i, 3, "%02x", sketch[i]);
	return json_string(hex);
}

static json_t *describe_late(int64_t now_ms, size_t *count)
{
	json_t *all = json_array();

	for (size_t i = 0; i < LATE_MAX; i++)
		if (late[i].id)
			json_array_append_new(all, json_pack("[s%I]", late[i].id, late[i].len,
							     (json_int_t)(now_ms - late[i].came_ms)));
	*count = json_array_size(all);
	return all;
}

int duplicates_describe(json_t *object, int64_t now_ms)
{
	size_t count;
	int failed = json_object_set_new(object, "copies", describe_delays());

	failed |= json_object_set_new(object, "sketch", describe_sketch());
	failed |= json_object_set_new(object, "late", describe_late(now_ms, &count));
	failed |= json_object_set_new(object, "late_weight", json_real(count ? (double)late_total / (double)count : 1));
	return failed;
}

void duplicates_clear(void)
{
	for (size_t i = 0; i < LATE_MAX; i++)
		free(late[i].id);
	memset(late, 0, sizeof(late));
	memset(delays, 0, sizeof(delays));
	memset(sketch, 0, sizeof(sketch));
	late_total = 0;
}

/* By Flajolet and others, 2007; a hash of 64 bits needs no correction for large numbers. */
double duplicates_estimate(const unsigned char bytes[DUPLICATES_SKETCH])
{
	const double m = DUPLICATES_SKETCH;
	double sum = 0, estimate;
	int zeros = 0;

	for (size_t i = 0; i < DUPLICATES_SKETCH; i++) {
		sum += ldexp(1, -(int)bytes[i]);
		zeros += bytes[i] == 0;
	}
	estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
	return estimate <= 2.5 * m && zeros ? m * log(m / zeros) : estimate;
}
