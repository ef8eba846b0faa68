/* purge.c owns `wsonce purge`: it removes old data in steps that lock few rows for some milliseconds. Each step is a
 * transaction and needs nothing that an earlier one left in memory, so the command may be interrupted, killed, run
 * again, and run on several hosts at once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "commands/table.h"
#include "commands/dead_letters.h"
#include "commands/migrate.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/purge_tables.h"
#include "commands/progress.h"
#include "commands/redis_query.h"
#include "commands/guards.h"
#include "commands/session.h"

#define STEP_LOOK INT64_C(20000) /* rows that one step looks at */
#define STEP_MS   60000

/* The result of a pass. */
struct tally {
	const struct pass *pass;
	struct pass_sql sql;
	char cutoff[64]; /* rows before it are purged; "": the pass was not requested */
	int64_t age_s;   /* age of the cutoff */
	int64_t done;
	int64_t locked; /* rows left because others had locked them */
	int64_t last;   /* the last id to purge */
	int64_t bytes;  /* size of the rows that a dry run would remove */
};

struct purge {
	struct session *session;
	const struct config *config;
	const struct given *o;
	int64_t started_ms;
	struct redis_query *marks; /* NULL: not needed so far, or Redis does not answer */
	bool has_asked_redis;
	struct tally tallies[PURGE_TABLES]; /* in the order of purge_tables */
};

/* --- steps --- */

/* Nothing here waits for long: rows that others have locked are skipped, and a table that is locked as a whole ends the
 * command, which can be run again. The limits and the format of times are set for the transaction, since behind a
 * pooler the connection is not ours. A cutoff is read and sent back as text, and in formats other than ISO the name of
 * a zone may mean another zone as well. Without the hints to the planner, Postgres reads a table of half a million rows
 * as a whole to find the next thousand. */
static const char settings[] = SESSION_SETTINGS ", pg_catalog.set_config('DateStyle', 'ISO', true),"
						" pg_catalog.set_config('lock_timeout', '2s', true),"
						" pg_catalog.set_config('enable_seqscan', 'off', true),"
						" pg_catalog.set_config('enable_bitmapscan', 'off', true)";

/* Columns of purge_step.sql. */
enum step_column { FOUND, BYTES, LAST, CHANGED, MARKED };

/* The dead mark of a deleted letter would reject later copies without leaving a dead letter. */
static void forget_marks(struct purge *p, const struct pg_result *rows)
{
	if (!p->has_asked_redis)
		p->marks = redis_query_open(p->config);
	p->has_asked_redis = true;
	dead_letters_forget(&p->marks, rows, MARKED);
}

/* Continues after the key *last, and sets it to the last key of this step, or NULL at the end. */
static int step(struct purge *p, struct tally *t, char **last)
{
	bool is_dry = p->o->is_dry;
	int64_t found, done;
	AUTO_ROWS *rows = session_query(p->session, t->sql.step, t->sql.step, "ssnns", *last, t->cutoff,
					is_dry ? STEP_LOOK : p->o->batch, STEP_LOOK, is_dry ? "f" : "t");

	if (!rows)
		return -1;
	if (session_count(rows) > 1)
		forget_marks(p, rows);
	found = session_number(rows, 0, FOUND);
	done = is_dry ? found : session_number(rows, 0, CHANGED);
	t->done += done;
	t->locked += found - done;
	t->bytes += session_number(rows, 0, BYTES);
	free(*last);
	*last = session_is_null(rows, 0, LAST) ? NULL : memory_strdup(session_text(rows, 0, LAST));
	return 0;
}

static void show(const struct purge *p, const struct tally *t, const char *last)
{
	double per_second = (double)t->done * 1000 / (double)(clock_ms(CLOCK_MONOTONIC) - p->started_ms + 1);
	bool is_id = strcmp(t->pass->first, PASS_FIRST_ID) == 0;

	progress_show("%s: %" PRId64 "%s%s, %.0f/s", t->pass->done_as, t->done, is_id ? ", up to id " : "",
		      is_id ? last : "", per_second);
}

static bool is_asked_for(const struct tally *t)
{
	return *t->cutoff;
}

/* True if nothing is to be removed: the table has no more rows than may stay, and none is too old. */
static bool is_idle(const struct tally *t)
{
	return !is_asked_for(t) || strcmp(t->cutoff, "-infinity") == 0;
}

/* Sets *first to the key to begin after; NULL if nothing is to be removed. */
static int find_range(struct purge *p, struct tally *t, char **first)
{
	AUTO_ROWS *rows = session_query(p->session, t->sql.range, t->sql.range, "ss", t->cutoff, t->pass->first);

	*first = NULL;
	if (!rows)
		return -1;
	if (!session_is_null(rows, 0, 0))
		*first = memory_strdup(session_text(rows, 0, 0));
	t->last = session_is_null(rows, 0, 1) ? INT64_MAX : session_number(rows, 0, 1);
	return 0;
}

static int walk(struct purge *p, struct tally *t)
{
	char *last;
	int failed;

	session_configure(p->session, settings, 0);
	failed = find_range(p, t, &last);
	session_configure(p->session, settings, STEP_MS);

	while (last && !failed && !interrupt_has_come() &&
	       (t->last == INT64_MAX || strtoll(last, NULL, 10) < t->last)) {
		failed = step(p, t, &last);
		if (last)
			show(p, t, last);
	}
	free(last);
	progress_clear();
	return failed;
}

/* --- guards --- */

static bool is_given(const struct retention *r)
{
	return r->older_than_us || r->keep != KEEP_ALL;
}

static int set_cutoff(struct purge *p, const struct pass *pass, struct tally *t)
{
	const struct retention *r = &p->o->retention[pass->table];
	struct pg_result *rows;
	char age[24], keep[24];

	if (!is_given(r) || pass->rows == (p->o->is_deleting ? PASS_ROWS_STAY : PASS_ROWS_GO) ||
	    (session_is_file(p->session) && !pass->file_change))
		return 0;
	t->pass = pass;
	t->sql = purge_sql(pass, session_is_file(p->session), p->o->is_open_too);
	snprintf(age, sizeof(age), "%" PRId64, r->older_than_us / 1000000);
	snprintf(keep, sizeof(keep), "%" PRId64, r->keep);
	rows = session_query(p->session, t->sql.cutoff, t->sql.cutoff, "ss", r->older_than_us ? age : NULL,
			     r->keep != KEEP_ALL ? keep : NULL);
	if (!rows)
		return -1;
	snprintf(t->cutoff, sizeof(t->cutoff), "%s", session_text(rows, 0, 0));
	t->age_s = session_number(rows, 0, 1);
	session_drop(rows);
	return 0;
}

static bool run(struct purge *p, const char *sql)
{
	return !session_run(p->session, sql, sql, "");
}

/* If one guard refuses, nothing changes, not even what another guard has written. */
static int ask_guards(struct purge *p)
{
	int status = run(p, "BEGIN") ? STATUS_FINE : STATUS_FAILED;

	for (size_t i = 0; i < PURGE_TABLES && status == STATUS_FINE; i++)
		if (purge_tables[i].guard && !is_idle(&p->tallies[i]))
			status = retention_guard_check(p->session, p->config, purge_tables[i].guard,
						       p->tallies[i].age_s);
	return run(p, status == STATUS_FINE && !p->o->is_dry ? "COMMIT" : "ROLLBACK") ? status : STATUS_FAILED;
}

static int prepare(struct purge *p)
{
	session_configure(p->session, settings, 0);
	for (size_t i = 0; i < PURGE_TABLES; i++)
		if (set_cutoff(p, &purge_tables[i], &p->tallies[i]))
			return STATUS_FAILED;
	return ask_guards(p);
}

/* --- the report --- */

static json_t *describe(const struct purge *p, const struct tally *t)
{
	json_t *object = json_pack("{s:s, s:I, s:I}", "before", t->cutoff, "done", (json_int_t)t->done, "locked",
				   (json_int_t)t->locked);

	if (p->o->is_dry)
		json_object_set_new(object, "bytes", json_integer((json_int_t)t->bytes));
	return object;
}

static void print_json(const struct purge *p)
{
	json_t *report = json_pack("{s:b, s:b, s:f}", "dry_run", p->o->is_dry, "interrupted", interrupt_has_come(),
				   "seconds", (double)(clock_ms(CLOCK_MONOTONIC) - p->started_ms) / 1000);

	for (size_t i = 0; i < PURGE_TABLES; i++)
		if (is_asked_for(&p->tallies[i]))
			json_object_set_new(report, purge_tables[i].name, describe(p, &p->tallies[i]));
	json_out_object(report);
}

static void print_text(const struct purge *p)
{
	for (size_t i = 0; i < PURGE_TABLES; i++) {
		const struct tally *t = &p->tallies[i];

		if (!is_asked_for(t))
			continue;
		printf("%s%s", p->o->is_dry ? "dry run: " : "", purge_tables[i].done_as);
		if (!strstr(t->cutoff, "infinity")) /* with --X-keep alone, all or none may be kept */
			printf(" before %s", t->cutoff);
		printf(": %" PRId64, t->done);
		if (p->o->is_dry)
			printf(" (%.1f MiB)", (double)t->bytes / 1048576);
		if (t->locked)
			printf(", and %" PRId64 " left because others have locked them; run again", t->locked);
		putchar('\n');
	}
}

/* --- the command --- */

static int purge(struct purge *p)
{
	int failed = 0;

	for (size_t i = 0; i < PURGE_TABLES && !failed; i++)
		failed = is_idle(&p->tallies[i]) ? 0 : walk(p, &p->tallies[i]);
	if (p->o->is_json)
		print_json(p);
	else
		print_text(p);
	if (interrupt_has_come() && !failed)
		dispatch_fail("interrupted; the counts above are complete, run again for the rest");
	return failed || interrupt_has_come() ? STATUS_FAILED : STATUS_FINE;
}

int purge_command(const struct invocation *in)
{
	struct purge p = {.session = in->session, .config = in->config, .o = in->options};
	int status;

	interrupt_watch();
	p.started_ms = clock_ms(CLOCK_MONOTONIC);
	if (!p.o->is_dry && !session_is_file(p.session))
		migrate_indexes(p.session); /* without them it takes longer and finds the same */
	status = prepare(&p);
	if (status == STATUS_FINE)
		status = purge(&p);
	for (size_t i = 0; i < PURGE_TABLES; i++)
		purge_sql_free(&p.tallies[i].sql);
	redis_query_close(p.marks);
	return status;
}

const char *purge_check(const struct invocation *in)
{
	const struct given *o = in->options;
	bool is_any_given = false;

	for (int i = 0; i < PASS_TABLES; i++)
		is_any_given = is_any_given || is_given(&o->retention[i]);
	if (!is_any_given)
		return "nothing chosen to purge: give --older-than, --actions-older-than, or --X-older-than or "
		       "--X-keep where X is "
		       "dead-letters, outbox or processed";
	if (config_store_path(in->config) &&
	    (is_given(&o->retention[PASS_OUTBOX]) || is_given(&o->retention[PASS_PROCESSED])))
		return "the outbox and processed events are in Postgres: they do not go with --store sqlite://";
	if (o->is_open_too && !is_given(&o->retention[PASS_DEAD_LETTERS]) && !is_given(&o->retention[PASS_OUTBOX]))
		return "--open-too goes with --dead-letters-older-than, --dead-letters-keep, --outbox-older-than or "
		       "--outbox-keep";
	if (o->is_deleting && !is_given(&o->retention[PASS_EVENTS]))
		return "--delete-rows: needs --older-than";
	return NULL;
}
