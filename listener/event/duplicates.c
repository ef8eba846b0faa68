/* duplicates.c counts copies until checkin.c reports them to the database, which adds them up for the fleet. */
#include "event/duplicates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/memory.h"

#define LATE_MAX 500 /* ids reported per period; if there are more, a random sample */
#define KEYS_MAX 256 /* ids whose copies are counted: the smallest hashes, so that samples can be merged */

struct copy {
	char *id; /* heap */
	size_t len;
	int64_t ms; /* delay; for a late copy, when it arrived */
};

struct key {
	uint64_t hash;
	int64_t copies;
};

static uint64_t delays[DUPLICATES_DELAYS];
static struct copy late[LATE_MAX]; /* copies that only the unique key found */
static uint64_t late_total;
static uint64_t lot = 1;          /* state of the random numbers */
static struct key keys[KEYS_MAX]; /* ascending */
static size_t key_count;
static struct copy closest, farthest;

static void keep(struct copy *c, const char *id, size_t len, int64_t ms)
{
	free(c->id);
	*c = (struct copy){memory_alloc(len), len, ms};
	memcpy(c->id, id, len);
}

/* Gives the same result on all listeners. Called for each copy, so it reads words, not bytes. */
static uint64_t hash_id(const char *id, size_t len)
{
	uint64_t hash = len, word;

	for (; len >= sizeof(word); id += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, id, sizeof(word));
		hash = hash_mix(hash ^ word);
	}
	return hash_mix(hash ^ hash_text(id, len));
}

void duplicates_key(const char *id, size_t len, char key[17])
{
	snprintf(key, 17, "%016" PRIx64, hash_id(id, len));
}

static void count_key(const char *id, size_t len)
{
	uint64_t hash = hash_id(id, len);
	size_t at = 0, end = key_count;

	if (key_count == KEYS_MAX && hash > keys[KEYS_MAX - 1].hash)
		return;
	while (at < end) {
		size_t middle = (at + end) / 2;

		if (keys[middle].hash < hash)
			at = middle + 1;
		else
			end = middle;
	}
	if (at < key_count && keys[at].hash == hash) {
		keys[at].copies++;
		return;
	}
	key_count += key_count < KEYS_MAX;
	memmove(keys + at + 1, keys + at, (key_count - at - 1) * sizeof(*keys));
	keys[at] = (struct key){hash, 1};
}

void duplicates_seen(const char *id, size_t len, int64_t delay_ms)
{
	int64_t ms = delay_ms < 0 ? 0 : delay_ms;
	int bucket = ms ? 64 - __builtin_clzll((unsigned long long)ms) : 0;

	histogram_observe(&duplicate_delay, (double)delay_ms);
	delays[bucket < DUPLICATES_DELAYS ? bucket : DUPLICATES_DELAYS - 1]++;
	count_key(id, len);
	if (!closest.id || ms < closest.ms)
		keep(&closest, id, len, ms);
	if (!farthest.id || ms > farthest.ms)
		keep(&farthest, id, len, ms);
}

/* Reservoir sampling: each late copy is kept with the same probability. */
void duplicates_late(const char *id, size_t len, int64_t now_ms)
{
	size_t at = late_total++;

	count_key(id, len);
	if (at >= LATE_MAX) {
		lot = hash_mix(lot + 0x9e3779b97f4a7c15ULL);
		at = lot % late_total;
	}
	if (at < LATE_MAX)
		keep(&late[at], id, len, now_ms);
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
			json_array_append_new(
				all, json_pack("[s%I]", late[i].id, late[i].len, (json_int_t)(now_ms - late[i].ms)));
	*count = json_array_size(all);
	return all;
}

static json_t *describe_keys(void)
{
	json_t *all = json_object();
	char hash[17];

	for (size_t i = 0; i < key_count; i++) {
		snprintf(hash, sizeof(hash), "%016" PRIx64, keys[i].hash);
		json_object_set_new(all, hash, json_integer((json_int_t)keys[i].copies));
	}
	return all;
}

void duplicates_describe(json_t *object, int64_t now_ms)
{
	size_t count;

	json_object_set_new(object, "copies", describe_delays());
	json_object_set_new(object, "late", describe_late(now_ms, &count));
	json_object_set_new(object, "late_weight", json_real(count ? (double)late_total / (double)count : 1));
	json_object_set_new(object, "keys", describe_keys());
	if (!closest.id)
		return;
	json_object_set_new(object, "closest", json_pack("[Is%]", (json_int_t)closest.ms, closest.id, closest.len));
	json_object_set_new(object, "farthest", json_pack("[Is%]", (json_int_t)farthest.ms, farthest.id, farthest.len));
}

void duplicates_clear(void)
{
	for (size_t i = 0; i < LATE_MAX; i++)
		free(late[i].id);
	free(closest.id);
	free(farthest.id);
	closest = farthest = (struct copy){NULL, 0, 0};
	memset(late, 0, sizeof(late));
	memset(delays, 0, sizeof(delays));
	late_total = key_count = 0;
}
