/* rejected.c counts the messages that became dead letters and keeps the last reason; the store writes the dead
 * letters. */
#include "event/rejected.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/counters.h"
#include "base/text.h"

#define AGAIN_MS      60000
#define REASON_BYTES  160
#define EXAMPLE_BYTES 80

static struct {
	uint64_t count;             /* messages since since_ms */
	int64_t since_ms;           /* loop clock */
	uint64_t persisted;         /* counters.persisted at since_ms */
	uint64_t duplicates;        /* counters.duplicates at since_ms */
	int64_t told_ms;            /* loop clock, the last log line; 0 if none */
	uint64_t run;               /* messages refused since an event was last stored */
	uint64_t run_stored;        /* stored_count() when run began */
	uint64_t run_seen;          /* run at run_ms */
	int64_t run_ms;             /* loop clock, when it last changed */
	char source[EXAMPLE_BYTES]; /* of the last one */
	char reason[REASON_BYTES];  /* reason of the last one */
	char refused[REASON_BYTES]; /* reason of the last message of the run, which may be tried again */
	char example[EXAMPLE_BYTES + 1];
	void (*mask)(void *arg, char *text); /* NULL if there are no secrets */
	void *arg;
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

static uint64_t run_length(void)
{
	return rejected.run_stored == stored_count() ? rejected.run : 0;
}

/* Postgres may quote the event in its reason. */
static void hide(char *text)
{
	if (rejected.mask)
		rejected.mask(rejected.arg, text);
}

uint64_t rejected_run(const char **reason)
{
	hide(rejected.refused);
	make_line(rejected.refused);
	*reason = rejected.refused;
	return run_length();
}

void rejected_refused(const char *reason)
{
	rejected.run = run_length() + 1;
	rejected.run_stored = stored_count();
	snprintf(rejected.refused, sizeof(rejected.refused), "%s", reason);
}

void rejected_forget(void)
{
	rejected.run = 0;
}

void rejected_checkin(const char *source, const char *reason, const char *message, size_t len)
{
	size_t n = len < EXAMPLE_BYTES ? len : EXAMPLE_BYTES;

	rejected.count++;
	snprintf(rejected.source, sizeof(rejected.source), "%s", source ? source : "unknown");
	snprintf(rejected.reason, sizeof(rejected.reason), "%s", reason);
	memcpy(rejected.example, message, n);
	rejected.example[n] = '\0';
	for (char *nul; (nul = memchr(rejected.example, '\0', n));)
		*nul = ' ';
}

void rejected_set_mask(void (*mask)(void *arg, char *text), void *arg)
{
	rejected.mask = mask;
	rejected.arg = arg;
}

static void begin(int64_t now_ms)
{
	rejected.count = 0;
	rejected.since_ms = now_ms;
	rejected.persisted = counters.persisted;
	rejected.duplicates = counters.duplicates;
}

void rejected_watch(int64_t now_ms)
{
	uint64_t stored = counters.persisted - rejected.persisted;
	uint64_t duplicates = counters.duplicates - rejected.duplicates;

	if (rejected.run != rejected.run_seen) {
		rejected.run_seen = rejected.run;
		rejected.run_ms = now_ms;
	} else if (now_ms - rejected.run_ms >= REJECTED_RUN_MS) {
		rejected.run = rejected.run_seen = 0;
	}
	if (!rejected.count && now_ms - rejected.since_ms >= AGAIN_MS)
		begin(now_ms);
	if (!rejected.count || (rejected.told_ms && now_ms - rejected.told_ms < AGAIN_MS))
		return;
	hide(rejected.reason);
	hide(rejected.example);
	log_write(stored || duplicates ? LOG_INFO : LOG_WARN,
		  stored || duplicates ? "some messages became dead letters" : "all messages became dead letters",
		  "dead_letters=%llu stored=%llu duplicates=%llu source=%s reason=%s example=%s",
		  (unsigned long long)rejected.count, (unsigned long long)stored, (unsigned long long)duplicates,
		  rejected.source, rejected.reason, rejected.example);
	rejected.told_ms = now_ms;
	begin(now_ms);
}
