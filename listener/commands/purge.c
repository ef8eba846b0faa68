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
#include "purge_payloads.sql.h"
#include "purge_rows.sql.h"
#include "session.h"
#include "when.h"

#define STEP_LOOK "20000" /* rows that one step looks at, at most */

struct purge_options {
	int64_t older_than_us;
	int64_t letters_older_than_us;
	int64_t letters_keep; /* -1: any number */
	int64_t batch;
	bool is_deleting;
	bool is_dry;
	bool is_json;
};

static const struct option purge_options[] = {
	{"older-than", OPTION_SPAN, offsetof(struct purge_options, older_than_us), "AGE", 0, 0, NULL,
	 "payloads of events stored so long ago go: 30d, 12h"},
	{"delete-rows", OPTION_SWITCH, offsetof(struct purge_options, is_deleting), NULL, 0, 0, NULL,
	 "the rows go, ids and all; only where --max-age guards every listener"},
	{"dead-letters-older-than", OPTION_SPAN, offsetof(struct purge_options, letters_older_than_us), "AGE", 0, 0,
	 NULL, "dead letters last seen so long ago go"},
	{"dead-letters-keep", OPTION_NUMBER, offsetof(struct purge_options, letters_keep), "N", 0, INT64_MAX, NULL,
	 "all but the N dead letters last seen go"},
	{"batch", OPTION_NUMBER, offsetof(struct purge_options, batch), "N", 1, 20000, NULL,
	 "rows in one transaction (1000)"},
	{"dry-run", OPTION_SWITCH, offsetof(struct purge_options, is_dry), NULL, 0, 0, NULL,
	 "only tell how many it would be"},
	{"json", OPTION_SWITCH, offsetof(struct purge_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static const struct purge_options purge_defaults = {.letters_keep = -1, .batch = 1000};

/* One table, from its lowest id to its highest. */
struct pass {
	const char *name;      /* of its member in JSON */
	const char *done_as;   /* how the count is called */
	const char *step_sql;  /* $1 the last id, $2 the cutoff, $3 the batch, $4 rows to look at */
	const char *count_sql; /* $1 the last id, $2 the cutoff, $3 rows to look at */
	char cutoff[64];       /* older is too old; "": the pass is not asked for */
	int64_t done;
	int64_t locked; /* somebody else had them */
	int64_t bytes;  /* of payloads or messages, if it was a dry run */
};

/* How many rows of the next $3 are too old, how big they are, and the last id, NULL at the end. */
#define COUNT(table, column, is_old) \
	"SELECT count(*) FILTER (WHERE is_old), sum(size) FILTER (WHERE is_old), max(id) FROM (" \
	"SELECT id, pg_column_size(" column ") AS size, " is_old " AS is_old FROM " table \
	" WHERE id > $1::bigint ORDER BY id LIMIT $3::bigint) AS step"

static const struct pass payload_pass = {
	.name = "payloads",
	.done_as = "payloads removed",
	.step_sql = SQL_PURGE_PAYLOADS,
	.count_sql = COUNT("events", "payload", "processed_at < $2::timestamptz AND purged_at IS NULL"),
};

static const struct pass row_pass = {
	.name = "rows",
	.done_as = "rows deleted",
	.step_sql = SQL_PURGE_ROWS,
	.count_sql = COUNT("events", "payload", "processed_at < $2::timestamptz"),
};

static const struct pass letter_pass = {
	.name = "dead_letters",
	.done_as = "dead letters deleted",
	.step_sql = SQL_PURGE_LETTERS,
	.count_sql = COUNT("dead_letters", "raw", "last_seen < $2::timestamptz"),
};

struct purge {
	struct session *session;
	const struct purge_options *o;
	int64_t started_ms;
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

/* A step waits for nobody: rows that others have locked are skipped, and a table that is locked as a
 * whole ends the command, which can be run again. The limits are the transaction's own, since behind a
 * pooler the connection is not. */
static int step(struct purge *p, struct pass *pass, char last[24], bool *is_over)
{
	char batch[24];
	const char *values[] = {last, pass->cutoff, batch, STEP_LOOK};
	struct pg_result *rows;

	snprintf(batch, sizeof(batch), "%" PRId64, p->o->batch);
	if (run(p, "BEGIN") ||
	    run(p, "SELECT set_config('lock_timeout', '2s', true), set_config('statement_timeout', '60s', true)") ||
	    !(rows = session_ask(p->session, pass->step_sql, 4, values)))
		return -1;
	pass->done += session_number(rows, 0, 0);
	pass->locked += session_number(rows, 0, 1) - session_number(rows, 0, 0);
	*is_over = session_is_null(rows, 0, 2);
	if (!*is_over)
		snprintf(last, 24, "%s", session_text(rows, 0, 2));
	session_drop(rows);
	return run(p, "COMMIT");
}

static int look(struct purge *p, struct pass *pass, char last[24], bool *is_over)
{
	const char *values[] = {last, pass->cutoff, STEP_LOOK};
	struct pg_result *rows = session_ask(p->session, pass->count_sql, 3, values);

	if (!rows)
		return -1;
	pass->done += session_number(rows, 0, 0);
	pass->bytes += session_number(rows, 0, 1);
	*is_over = session_is_null(rows, 0, 2);
	if (!*is_over)
		snprintf(last, 24, "%s", session_text(rows, 0, 2));
	session_drop(rows);
	return 0;
}

static int walk(struct purge *p, struct pass *pass)
{
	char last[24] = "-9223372036854775808";
	bool is_over = false;

	while (*pass->cutoff && !is_over && !is_interrupted) {
		if (p->o->is_dry ? look(p, pass, last, &is_over) : step(p, pass, last, &is_over))
			return -1;
		progress_show("%s: %" PRId64 ", up to id %s, %.0f/s", pass->done_as, pass->done, last,
			      (double)pass->done * 1000 / (double)(now_ms() - p->started_ms + 1));
	}
	progress_clear();
	return 0;
}

/* --- what is too old --- */

static int set_cutoff(struct purge *p, struct pass *pass, int64_t age_us)
{
	char age[24];
	const char *values[] = {age};
	struct pg_result *rows;

	snprintf(age, sizeof(age), "%" PRId64, age_us / 1000000);
	rows = session_ask(p->session, "SELECT now() - $1::bigint * interval '1 second'", 1, values);
	if (!rows)
		return -1;
	snprintf(pass->cutoff, sizeof(pass->cutoff), "%s", session_text(rows, 0, 0));
	session_drop(rows);
	return 0;
}

/* The moment before which letters go: the later one of what the age and the number say. */
static int set_letters_cutoff(struct purge *p, struct pass *pass)
{
	char keep[24];
	const char *values[] = {keep, *pass->cutoff ? pass->cutoff : NULL};
	struct pg_result *rows;

	if (p->o->letters_keep < 0)
		return 0;
	snprintf(keep, sizeof(keep), "%" PRId64, p->o->letters_keep);
	rows = session_ask(
		p->session,
		"SELECT coalesce(greatest($2::timestamptz, (SELECT last_seen FROM dead_letters WHERE $1::bigint > 0 "
		"ORDER BY last_seen DESC OFFSET greatest($1::bigint, 1) - 1 LIMIT 1), "
		"CASE WHEN $1::bigint = 0 THEN 'infinity'::timestamptz END), '-infinity')",
		2, values);
	if (!rows)
		return -1;
	snprintf(pass->cutoff, sizeof(pass->cutoff), "%s", session_text(rows, 0, 0));
	session_drop(rows);
	return 0;
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

static void print_json(const struct purge *p, const struct pass *passes, int n)
{
	struct output out;

	output_open(&out);
	output_member(&out, "dry_run", json_boolean(p->o->is_dry));
	output_member(&out, "interrupted", json_boolean(is_interrupted));
	output_member(&out, "seconds", json_real((double)(now_ms() - p->started_ms) / 1000));
	for (int i = 0; i < n; i++)
		if (*passes[i].cutoff)
			output_member(&out, passes[i].name, describe(p, &passes[i]));
	output_close(&out);
}

static void print_text(const struct purge *p, const struct pass *passes, int n)
{
	for (int i = 0; i < n; i++) {
		const struct pass *pass = &passes[i];

		if (!*pass->cutoff)
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

static int purge(struct purge *p, struct pass *passes)
{
	const struct purge_options *o = p->o;
	int failed = 0;

	if (o->older_than_us)
		failed = set_cutoff(p, &passes[0], o->older_than_us);
	if (!failed && o->letters_older_than_us)
		failed = set_cutoff(p, &passes[1], o->letters_older_than_us);
	failed = failed || set_letters_cutoff(p, &passes[1]) || walk(p, &passes[0]) || walk(p, &passes[1]);
	if (o->is_json)
		print_json(p, passes, 2);
	else
		print_text(p, passes, 2);
	if (is_interrupted && !failed)
		dispatch_fail("interrupted: what is told is done; run it again for the rest");
	return failed || is_interrupted ? STATUS_FAILED : STATUS_FINE;
}

static int run_purge(const struct invocation *in)
{
	const struct purge_options *o = in->options;
	struct purge p = {session_open(in->config), o, now_ms()};
	struct pass passes[] = {o->is_deleting ? row_pass : payload_pass, letter_pass};
	const struct sigaction action = {.sa_handler = on_signal};
	enum guard_result guard = p.session ? GUARD_HOLDS : GUARD_FAILED;
	int status = STATUS_FAILED;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (p.session && o->is_deleting)
		guard = guard_check(p.session, in->config, o->older_than_us / 1000000, !o->is_dry);
	if (guard == GUARD_HOLDS)
		status = purge(&p, passes);
	session_close(p.session);
	return guard == GUARD_REFUSES ? STATUS_USAGE : status;
}

static const char *check_purge(const struct invocation *in)
{
	const struct purge_options *o = in->options;

	if (!o->older_than_us && !o->letters_older_than_us && o->letters_keep < 0)
		return "purge what? give --older-than, --dead-letters-older-than or --dead-letters-keep";
	if (o->is_deleting && !o->older_than_us)
		return "--delete-rows: needs --older-than";
	return NULL;
}

const struct subcommand purge_command = {
	.name = "purge",
	.arguments = "",
	.summary = "removes what is too old, in small steps",
	.help = "Removes the payloads of events that were stored long ago. Their rows stay with the ids, so late\n"
		"copies are still known for duplicates. It may be interrupted and run again at any time, while the\n"
		"fleet runs, also from several hosts. --delete-rows removes the rows too, and is refused unless every\n"
		"listener runs with a --max-age that is at least a day shorter than --older-than.\n",
	.options = purge_options,
	.option_count = sizeof(purge_options) / sizeof(purge_options[0]),
	.options_size = sizeof(struct purge_options),
	.defaults = &purge_defaults,
	.check = check_purge,
	.run = run_purge,
};
