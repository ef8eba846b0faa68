/* duplicates.c counts copies until checkin.c reports them to the database, which adds them up for the fleet. */
#include "road/duplicates.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/counters.h"
#include "base/memory.h"

#define LATE_MAX 500 /* ids reported per period; of more, a random sample */

/* A copy that only the unique key found. */
struct late {
	char *id;
	size_t len;
	int64_t came_ms;
};

static uint64_t delays[DUPLICATES_DELAYS];
static struct late late[LATE_MAX];
static uint64_t late_total;
static uint64_t lot = 1; /* state of the random numbers */

void duplicates_seen(int64_t delay_ms)
{
	int bucket = delay_ms < 1 ? 0 : 64 - __builtin_clzll((unsigned long long)delay_ms);

	histogram_observe(&duplicate_delay, (double)delay_ms);
	delays[bucket < DUPLICATES_DELAYS ? bucket : DUPLICATES_DELAYS - 1]++;
}

/* Reservoir sampling: each late copy is kept with the same probability. */
void duplicates_late(const char *id, size_t len, int64_t now_ms)
{
	size_t at = late_total++;

	if (at >= LATE_MAX) {
		lot = hash_mix(lot + 0x9e3779b97f4a7c15ULL);
		at = lot % late_total;
	}
	if (at >= LATE_MAX)
		return;
	free(late[at].id);
	late[at] = (struct late){.id = memcpy(memory_alloc(len), id, len), .len = len, .came_ms = now_ms};
}

static json_t *describe_delays(void)
{
	json_t *all = json_array();

	for (int i = 0; i < DUPLICATES_DELAYS; i++)
		json_array_append_new(all, json_integer((json_int_t)delays[i]));
	return all;
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

void duplicates_describe(json_t *object, int64_t now_ms)
{
	size_t count;

	json_object_set_new(object, "copies", describe_delays());
	json_object_set_new(object, "late", describe_late(now_ms, &count));
	json_object_set_new(object, "late_weight", json_real(count ? (double)late_total / (double)count : 1));
}

void duplicates_clear(void)
{
	for (size_t i = 0; i < LATE_MAX; i++)
		free(late[i].id);
	memset(late, 0, sizeof(late));
	memset(delays, 0, sizeof(delays));
	late_total = 0;
}
