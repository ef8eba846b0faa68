/* rejected.c counts why messages became dead letters; the store writes the dead letters.
 *
 * It keeps REASONS counters, by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi, 2005): when they are all in
 * use, a new reason takes over the rarest one's counter with its count. So the commonest reason is found even if others
 * quote their message and are all different. */
#include "event/rejected.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/counters.h"

#define AGAIN_MS      60000
#define REASONS       8
#define REASON_BYTES  160
#define EXAMPLE_BYTES 80

struct reason {
	uint64_t count;
	char text[REASON_BYTES];
	char example[EXAMPLE_BYTES + 4];
};

static struct {
	struct reason reasons[REASONS];
	uint64_t count;      /* messages since since_ms */
	int64_t since_ms;    /* loop clock */
	uint64_t persisted;  /* counters.persisted at since_ms */
	uint64_t duplicates; /* counters.duplicates at since_ms */
	int64_t told_ms;     /* loop clock, the last log line; 0 if none */
	uint64_t run;        /* messages since an event was last stored */
	uint64_t run_stored; /* stored_count() at that time */
	char last[REASON_BYTES];
} rejected;

static uint64_t classes[REJECTED_CLASSES];

void rejected_add(enum rejected_class class, uint64_t messages)
{
	classes[class] += messages;
}

uint64_t rejected_count(enum rejected_class class)
{
	return classes[class];
}

static uint64_t stored_count(void)
{
	return counters.persisted + counters.duplicates;
}

uint64_t rejected_run(const char **reason)
{
	*reason = rejected.last;
	return rejected.run_stored == stored_count() ? rejected.run : 0;
}

/* The entry of this reason, or the one to replace. */
static struct reason *find(const char *text)
{
	struct reason *rarest = &rejected.reasons[0];

	for (size_t i = 0; i < REASONS; i++) {
		struct reason *r = &rejected.reasons[i];

		if (r->count && strncmp(r->text, text, REASON_BYTES - 1) == 0)
			return r;
		if (r->count < rarest->count)
			rarest = r;
	}
	return rarest;
}

static void keep_example(struct reason *r, const char *message, size_t len)
{
	size_t n = len < EXAMPLE_BYTES ? len : EXAMPLE_BYTES;

	memcpy(r->example, message, n);
	snprintf(r->example + n, sizeof(r->example) - n, "%s", n < len ? "..." : "");
	for (size_t i = 0; i < n; i++)
		if (!r->example[i])
			r->example[i] = ' ';
}

void rejected_checkin(const char *reason, const char *message, size_t len)
{
	struct reason *r = find(reason);
	const char *last;

	rejected.run = rejected_run(&last) + 1;
	rejected.run_stored = stored_count();
	snprintf(rejected.last, sizeof(rejected.last), "%s", reason);
	rejected.count++;
	if (!r->count++ || strncmp(r->text, reason, REASON_BYTES - 1) != 0) {
		snprintf(r->text, sizeof(r->text), "%s", reason);
		keep_example(r, message, len);
	}
}

static const struct reason *find_commonest(void)
{
	const struct reason *commonest = &rejected.reasons[0];

	for (size_t i = 1; i < REASONS; i++)
		if (rejected.reasons[i].count > commonest->count)
			commonest = &rejected.reasons[i];
	return commonest;
}

static void begin(int64_t now_ms)
{
	memset(rejected.reasons, 0, sizeof(rejected.reasons));
	rejected.count = 0;
	rejected.since_ms = now_ms;
	rejected.persisted = counters.persisted;
	rejected.duplicates = counters.duplicates;
}

void rejected_watch(int64_t now_ms)
{
	const struct reason *r = find_commonest();
	uint64_t stored = counters.persisted - rejected.persisted;
	uint64_t duplicates = counters.duplicates - rejected.duplicates;

	if (!rejected.count && now_ms - rejected.since_ms >= AGAIN_MS)
		begin(now_ms);
	if (!rejected.count || (rejected.told_ms && now_ms - rejected.told_ms < AGAIN_MS))
		return;
	log_write(stored || duplicates ? LOG_INFO : LOG_WARN,
		  stored || duplicates ? "some messages became dead letters" : "all messages became dead letters",
		  "dead_letters=%llu stored=%llu duplicates=%llu commonest=%llu reason=%s example=%s",
		  (unsigned long long)rejected.count, (unsigned long long)stored, (unsigned long long)duplicates,
		  (unsigned long long)r->count, r->text, r->example);
	rejected.told_ms = now_ms;
	begin(now_ms);
}
