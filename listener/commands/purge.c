/* purge.c owns `wsonce purge`: what is too old goes, in steps that lock few rows for a few milliseconds.
 * Each step is a transaction of its own and stands on nothing that an earlier one left in memory, so the
 * command may be interrupted, killed, run again, and run on several hosts at once. */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatch.h"
#include "guard.h"
#include "output.h"
#include "progress.h"
#include "purge_letters.sql.h"
#include "purge_outbox.sql.h"
#include "purge_payloads.sql.h"
#include "purge_processed.sql.h"
#include "purge_rows.sql.h"
#include "session.h"

#define STEP_LOOK "20000" /* rows that one step looks at, at most */
#define KEEP_ALL  (-1)

/* Of one table: what is older goes, and so do all but the newest. */
struct retention {
	int64_t older_than_us; /* 0: of any age */
	int64_t keep;          /* KEEP_ALL: any number */
};

struct purge_options {
	struct retention events; /* by age only */
	struct retention letters;
	struct retention outbox;
	struct retention processed;
	int64_t batch;
	bool is_deleting;
	bool is_dry;
	bool is_json;
};

/* clang-format off */
#define OLDER_THAN(flag, of, meaning) \
	{flag, OPTION_SPAN, offsetof(struct purge_options, of.older_than_us), "AGE", 0, 0, NULL, meaning}
#define KEEP(flag, of, meaning) \
	{flag, OPTION_NUMBER, offsetof(struct purge_options, of.keep), "N", 0, INT64_MAX, NULL, meaning}
/* clang-format on */

static const struct option purge_options[] = {
	OLDER_THAN("older-than", events, "payloads of events stored so long ago go: 30d, 12h"),
	{"delete-rows", OPTION_SWITCH, offsetof(struct purge_options, is_deleting), NULL, 0, 0, NULL,
	 "the rows go, ids and all; only where --max-age guards every listener"},
	OLDER_THAN("dead-letters-older-than", letters, "dead letters last seen so long ago go"),
	KEEP("dead-letters-keep", letters, "all but the N dead letters last seen go"),
	OLDER_THAN("outbox-older-than", outbox, "deliveries settled so long ago go, dead ones too; pending ones stay"),
	KEEP("outbox-keep", outbox, "all but the N deliveries settled last go"),
	OLDER_THAN("processed-older-than", processed,
		   "what consumers processed so long ago is forgotten; guarded as --delete-rows"),
	KEEP("processed-keep", processed, "all but the N rows processed last are forgotten; guarded too"),
	{"batch", OPTION_NUMBER, offsetof(struct purge_options, batch), "N", 1, 20000, NULL,
	 "rows in one transaction (1000)"},
	{"dry-run", OPTION_SWITCH, offsetof(struct purge_options, is_dry), NULL, 0, 0, NULL,
	 "only tell how many it would be"},
	{"json", OPTION_SWITCH, offsetof(struct purge_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static const struct purge_options purge_defaults = {
	.events = {0, KEEP_ALL},
	.letters = {0, KEEP_ALL},
	.outbox = {0, KEEP_ALL},
	.processed = {0, KEEP_ALL},
	.batch = 1000,
};

/* One table, from its lowest key to its highest. */
struct pass {
	const char *name;                   /* of its member in JSON */
	const char *done_as;                /* how the count is called */
	size_t retention;                   /* where in the options */
	const char *cutoff_sql;             /* $1 seconds, $2 rows to keep */
	const char *step_sql;               /* $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at */
	const char *count_sql;              /* $1 the last key, $2 the cutoff, $3 rows to look at */
	const char *first;                  /* a key before all others */
	const struct guard_deletion *guard; /* NULL: nothing is processed twice without these rows */
	char cutoff[64];                    /* older is too old; "": the pass is not asked for */
	int64_t age_s;                      /* of the cutoff */
	int64_t done;
	int64_t locked; /* somebody else had them */
	int64_t bytes;  /* of what goes, if it was a dry run */
};

/* The moment before which rows go, the later one of what the age and the number say, and its age. */
#define CUTOFF(table, column) \
	"SELECT cutoff, CASE WHEN isfinite(cutoff) THEN floor(extract(epoch FROM now() - cutoff)) ELSE 0 END FROM (" \
	"SELECT coalesce(greatest(now() - $1::bigint * interval '1 second', CASE WHEN $2::bigint = 0 THEN 'infinity'" \
	" WHEN $2::bigint > 0 THEN (SELECT " column " FROM " table " WHERE " column " IS NOT NULL" \
	" ORDER BY " column " DESC OFFSET greatest($2::bigint, 1) - 1 LIMIT 1) END), '-infinity') AS cutoff) AS c"

#define FIRST_ID "-9223372036854775808"

/* How many rows of the next $3 are too old, how big they are, and the last id, NULL at the end. */
#define COUNT(table, column, is_old) \
	"SELECT count(*) FILTER (WHERE is_old), sum(size) FILTER (WHERE is_old), max(id) FROM (" \
	"SELECT id, pg_column_size(" column ") AS size, " is_old " AS is_old FROM " table \
	" WHERE id > $1::bigint ORDER BY id LIMIT $3::bigint) AS step"

/* The same by the key of purge_processed.sql. */
static const char count_processed_sql[] =
	"WITH step AS MATERIALIZED (SELECT consumer, event_id, pg_column_size(p) AS size,"
	" processed_at < $2::timestamptz AS is_old FROM processed_events AS p"
	" WHERE (consumer, event_id) > ($1::json->>0, $1::json->>1) ORDER BY consumer, event_id LIMIT $3::bigint)"
	" SELECT count(*) FILTER (WHERE is_old), sum(size) FILTER (WHERE is_old), (SELECT json_build_array(consumer,"
	" event_id) FROM step ORDER BY consumer DESC, event_id DESC LIMIT 1) FROM step";

static const struct guard_deletion deletes_rows = {
	.option = "--delete-rows",
	.harm = "A late copy of an event whose row is gone would be stored again. Without --delete-rows the ids stay "
		"and only payloads go; or",
};

static const struct guard_deletion forgets_processed = {
	.option = "--processed-older-than, --processed-keep",
	.harm = "A late copy of an event that is no longer known to be processed would be processed again:",
};

static const struct pass payload_pass = {
	.name = "payloads",
	.done_as = "payloads removed",
	.retention = offsetof(struct purge_options, events),
	.cutoff_sql = CUTOFF("events", "processed_at"),
	.step_sql = SQL_PURGE_PAYLOADS,
	.count_sql = COUNT("events", "payload", "processed_at < $2::timestamptz AND purged_at IS NULL"),
	.first = FIRST_ID,
};

static const struct pass row_pass = {
	.name = "rows",
	.done_as = "rows deleted",
	.retention = offsetof(struct purge_options, events),
	.cutoff_sql = CUTOFF("events", "processed_at"),
	.step_sql = SQL_PURGE_ROWS,
	.count_sql = COUNT("events", "payload", "processed_at < $2::timestamptz"),
	.first = FIRST_ID,
	.guard = &deletes_rows,
};

static const struct pass other_passes[] = {
	{
		.name = "dead_letters",
		.done_as = "dead letters deleted",
		.retention = offsetof(struct purge_options, letters),
		.cutoff_sql = CUTOFF("dead_letters", "last_seen"),
		.step_sql = SQL_PURGE_LETTERS,
		.count_sql = COUNT("dead_letters", "raw", "last_seen < $2::timestamptz"),
		.first = FIRST_ID,
	},
	{
		.name = "outbox",
		.done_as = "deliveries deleted",
		.retention = offsetof(struct purge_options, outbox),
		.cutoff_sql = CUTOFF("outbox", "settled_at"),
		.step_sql = SQL_PURGE_OUTBOX,
		.count_sql = COUNT("outbox", "outbox", "state <> 'pending' AND settled_at < $2::timestamptz"),
		.first = FIRST_ID,
	},
	{
		.name = "processed_events",
		.done_as = "processed events forgotten",
		.retention = offsetof(struct purge_options, processed),
		.cutoff_sql = CUTOFF("processed_events", "processed_at"),
		.step_sql = SQL_PURGE_PROCESSED,
		.count_sql = count_processed_sql,
		.first = "[\"\",\"\"]",
		.guard = &forgets_processed,
	},
};

#define PASSES (1 + sizeof(other_passes) / sizeof(other_passes[0]))

struct purge {
	struct session *session;
	const struct config *config;
	const struct purge_options *o;
	int64_t started_ms;
	struct pass passes[PASSES];
};

static volatile sig_atomic_t is_interrupted;

static void on_signal(int number)
{
	(void)number;
	is_interrupted = 1;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int run(struct purge *p, const char *sql)
{
	struct pg_result *rows = session_ask(p->session, sql, 0, NULL);

	session_drop(rows);
	return rows ? 0 : -1;
}

/* --- steps --- */

/* What steps and counts tell alike: whether they were the last, and else where the next one begins. */
static int go_on(struct pg_result *rows, char **last)
{
	free(*last);
	*last = session_is_null(rows, 0, 2) ? NULL : strdup(session_text(rows, 0, 2));
	return *last || session_is_null(rows, 0, 2) ? 0 : -dispatch_fail("out of memory");
}

/* Everything waits for nobody: rows that others have locked are skipped, and a table that is locked as a
 * whole ends the command, which can be run again. The limits are the transaction's own, since behind a
 * pooler the connection is not. */
static int begin(struct purge *p, const char *statement_timeout)
{
	const char *values[] = {statement_timeout};
	struct pg_result *rows = NULL;

	if (run(p, "BEGIN") == 0)
		rows = session_ask(p->session,
				   "SELECT set_config('lock_timeout', '2s', true), "
				   "set_config('statement_timeout', $1::text, true)",
				   1, values);
	session_drop(rows);
	return rows ? 0 : -1;
}

static int step(struct purge *p, struct pass *pass, char **last)
{
	char batch[24];
	const char *values[] = {*last, pass->cutoff, batch, STEP_LOOK};
	struct pg_result *rows;
	int failed;

	snprintf(batch, sizeof(batch), "%" PRId64, p->o->batch);
	if (begin(p, "60s") || !(rows = session_ask(p->session, pass->step_sql, 4, values)))
		return -1;
	pass->done += session_number(rows, 0, 0);
	pass->locked += session_number(rows, 0, 1) - session_number(rows, 0, 0);
	failed = go_on(rows, last);
	session_drop(rows);
	return run(p, "COMMIT") || failed ? -1 : 0;
}

static int look(struct purge *p, struct pass *pass, char **last)
{
	const char *values[] = {*last, pass->cutoff, STEP_LOOK};
	struct pg_result *rows = session_ask(p->session, pass->count_sql, 3, values);
	int failed;

	if (!rows)
		return -1;
	pass->done += session_number(rows, 0, 0);
	pass->bytes += session_number(rows, 0, 1);
	failed = go_on(rows, last);
	session_drop(rows);
	return failed;
}

static void show(const struct purge *p, const struct pass *pass, const char *last)
{
	double per_second = (double)pass->done * 1000 / (double)(now_ms() - p->started_ms + 1);
	bool is_id = strcmp(pass->first, FIRST_ID) == 0;

	progress_show("%s: %" PRId64 "%s%s, %.0f/s", pass->done_as, pass->done, is_id ? ", up to id " : "",
		      is_id ? last : "", per_second);
}

static bool is_asked_for(const struct pass *pass)
{
	return *pass->cutoff;
}

/* There are no more rows than are to be kept, and none is too old. */
static bool is_idle(const struct pass *pass)
{
	return !is_asked_for(pass) || strcmp(pass->cutoff, "-infinity") == 0;
}

static int walk(struct purge *p, struct pass *pass)
{
	char *last = is_idle(pass) ? NULL : strdup(pass->first);
	int failed = 0;

	while (last && !failed && !is_interrupted) {
		failed = p->o->is_dry ? look(p, pass, &last) : step(p, pass, &last);
		if (last)
			show(p, pass, last);
	}
	free(last);
	progress_clear();
	return failed;
}

/* --- what is too old, and may go --- */

static int set_cutoff(struct purge *p, struct pass *pass)
{
	const struct retention *r = (const struct retention *)((const char *)p->o + pass->retention);
	char age[24], keep[24];
	const char *values[] = {r->older_than_us ? age : NULL, r->keep != KEEP_ALL ? keep : NULL};
	struct pg_result *rows;

	if (!values[0] && !values[1])
		return 0;
	snprintf(age, sizeof(age), "%" PRId64, r->older_than_us / 1000000);
	snprintf(keep, sizeof(keep), "%" PRId64, r->keep);
	if (begin(p, "0") || !(rows = session_ask(p->session, pass->cutoff_sql, 2, values)))
		return -1;
	snprintf(pass->cutoff, sizeof(pass->cutoff), "%s", session_text(rows, 0, 0));
	pass->age_s = session_number(rows, 0, 1);
	session_drop(rows);
	return run(p, "COMMIT");
}

/* Whether all who would go may. With is_to_stay the database remembers it. */
static enum guard_result ask_guards(struct purge *p, bool is_to_stay)
{
	enum guard_result result = GUARD_HOLDS;

	for (size_t i = 0; i < PASSES && result == GUARD_HOLDS; i++) {
		const struct pass *pass = &p->passes[i];

		if (pass->guard && !is_idle(pass))
			result = guard_check(p->session, p->config, pass->guard, pass->age_s, is_to_stay);
	}
	return result;
}

/* If one guard refuses, nothing is changed, what another one remembers neither. */
static enum guard_result prepare(struct purge *p)
{
	enum guard_result result;

	for (size_t i = 0; i < PASSES; i++)
		if (set_cutoff(p, &p->passes[i]))
			return GUARD_FAILED;
	result = ask_guards(p, false);
	return result == GUARD_HOLDS && !p->o->is_dry ? ask_guards(p, true) : result;
}

/* --- the report --- */

static json_t *describe(const struct purge *p, const struct pass *pass)
{
	json_t *object = json_pack("{s:s, s:I, s:I}", "before", pass->cutoff, "done", (json_int_t)pass->done, "locked",
				   (json_int_t)pass->locked);

	if (p->o->is_dry)
		json_object_set_new(object, "bytes", json_integer((json_int_t)pass->bytes));
	return object;
}

static void print_json(const struct purge *p)
{
	struct output out;

	output_open(&out);
	output_member(&out, "dry_run", json_boolean(p->o->is_dry));
	output_member(&out, "interrupted", json_boolean(is_interrupted));
	output_member(&out, "seconds", json_real((double)(now_ms() - p->started_ms) / 1000));
	for (size_t i = 0; i < PASSES; i++)
		if (is_asked_for(&p->passes[i]))
			output_member(&out, p->passes[i].name, describe(p, &p->passes[i]));
	output_close(&out);
}

static void print_text(const struct purge *p)
{
	for (size_t i = 0; i < PASSES; i++) {
		const struct pass *pass = &p->passes[i];

		if (!is_asked_for(pass))
			continue;
		printf("%s%s before %s: %" PRId64, p->o->is_dry ? "would be " : "", pass->done_as, pass->cutoff,
		       pass->done);
		if (p->o->is_dry)
			printf(" (%.1f MiB)", (double)pass->bytes / 1048576);
		if (pass->locked)
			printf(", and %" PRId64 " left because others have locked them: run it again", pass->locked);
		putchar('\n');
	}
}

/* --- the command --- */

static int purge(struct purge *p)
{
	int failed = 0;

	for (size_t i = 0; i < PASSES && !failed; i++)
		failed = walk(p, &p->passes[i]);
	if (p->o->is_json)
		print_json(p);
	else
		print_text(p);
	if (is_interrupted && !failed)
		dispatch_fail("interrupted: what is told is done; run it again for the rest");
	return failed || is_interrupted ? STATUS_FAILED : STATUS_FINE;
}

static int run_purge(const struct invocation *in)
{
	struct purge p = {.session = session_open(in->config), .config = in->config, .o = in->options};
	const struct sigaction action = {.sa_handler = on_signal};
	enum guard_result guard;
	int status = STATUS_FAILED;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	p.started_ms = now_ms();
	p.passes[0] = p.o->is_deleting ? row_pass : payload_pass;
	memcpy(&p.passes[1], other_passes, sizeof(other_passes));
	guard = p.session ? prepare(&p) : GUARD_FAILED;
	if (guard == GUARD_HOLDS)
		status = purge(&p);
	session_close(p.session);
	return guard == GUARD_REFUSES ? STATUS_USAGE : status;
}

static bool is_given(const struct retention *r)
{
	return r->older_than_us || r->keep != KEEP_ALL;
}

static const char *check_purge(const struct invocation *in)
{
	const struct purge_options *o = in->options;

	if (!is_given(&o->events) && !is_given(&o->letters) && !is_given(&o->outbox) && !is_given(&o->processed))
		return "purge what? give --older-than, or --X-older-than or --X-keep where X is dead-letters, outbox "
		       "or "
		       "processed";
	if (o->is_deleting && !is_given(&o->events))
		return "--delete-rows: needs --older-than";
	return NULL;
}

const struct command purge_command = {
	.name = "purge",
	.arguments = "",
	.summary = "removes what is too old, in small steps",
	.help = "Removes the payloads of events that were stored long ago. Their rows stay with the ids, so late\n"
		"copies are still known for duplicates. It may be interrupted and run again at any time, while the\n"
		"fleet runs, also from several hosts. --delete-rows removes the rows too, and is refused unless every\n"
		"listener runs with a --max-age that is at least a day shorter than --older-than; so are\n"
		"--processed-older-than and --processed-keep, by the age of the youngest row that would go.\n",
	.options = purge_options,
	.option_count = sizeof(purge_options) / sizeof(purge_options[0]),
	.options_size = sizeof(struct purge_options),
	.defaults = &purge_defaults,
	.check = check_purge,
	.run = run_purge,
};
