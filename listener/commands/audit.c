/* audit.c owns `wsonce audit`: which of the expected events are stored, and what is with the others.
 *
 * The database is asked, then Redis, then the database again for what is left: an event that is stored
 * in between had a claim when Redis was asked, or a row the second time. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/dispatch.h"
#include "base/clock.h"
#include "commands/effects_guard.h"
#include "commands/audit_list.h"
#include "commands/feeder.h"
#include "commands/dead_letters.h"
#include "commands/ndjson.h"
#include "commands/redis_query.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "commands/session.h"

#define PAGE   512 /* ids of one question to Redis */
#define PAGE_S "512"

struct audit_options {
	const char *expected;
	const char *format;
	int64_t grace_us;
	int64_t horizon_us;
	int64_t limit;
	const char *missing_to;
	bool is_resubmit;
	bool is_json;
};

static const struct option audit_options[] = {
	{"expected", OPTION_TEXT, offsetof(struct audit_options, expected), "FILE|-", 0, 0, NULL,
	 "the expected ids or whole events, one a line"},
	{"format", OPTION_CHOICE, offsetof(struct audit_options, format), "FORMAT", 0, 0, "ids csv events",
	 "ids, csv (KEY,TIME; an S3 inventory) or events; by default ids, or events if the first line begins with {"},
	{"grace", OPTION_SPAN, offsetof(struct audit_options, grace_us), "AGE", 0, 0, NULL,
	 "leave out events younger than this (12h), by --time-pointer; they may be on their way"},
	{"horizon", OPTION_SPAN, offsetof(struct audit_options, horizon_us), "AGE", 0, 0, NULL,
	 "leave out events older than this (30d), by --time-pointer; they may have been deleted"},
	{"resubmit", OPTION_SWITCH, offsetof(struct audit_options, is_resubmit), NULL, 0, 0, NULL,
	 "store the missing ones and those that are dead letters; needs whole events"},
	{"limit", OPTION_NUMBER, offsetof(struct audit_options, limit), "N", 0, INT64_MAX, NULL,
	 "print at most N missing ids (100); --json prints all"},
	{"missing-to", OPTION_TEXT, offsetof(struct audit_options, missing_to), "FILE", 0, 0, NULL,
	 "write all missing ids to FILE, one a line"},
	{"json", OPTION_SWITCH, offsetof(struct audit_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

static const struct audit_options audit_defaults = {.limit = 100};

struct audit {
	const struct invocation *in;
	const struct audit_options *o;
	struct session *session;
	struct redis_query *marks; /* NULL: Redis cannot be asked */
	struct ndjson *lines;
	struct audit_list expected;
	int64_t distinct;
	int64_t stored;
	int64_t dead_lettered;
	int64_t retriable; /* dead letters with an id: other lines are no events */
	int64_t discarded;
	int64_t resolved; /* their letters were, by an edited message */
	int64_t in_flight;
	int64_t missing;
	/* Resubmitting: a page of missing events. */
	struct pg_result *page;
	size_t row;
	char last[24]; /* number of the last row of it */
};

/* --- questions to the database --- */

/* The last one, which Postgres 13 does not have: a server whose client was stopped by Ctrl-C does not go
 * on comparing for nobody. */
static const char *const sql_prepare[] = {
	"SET work_mem = '64MB'",
	"SET temp_buffers = '32MB'",
	"SET statement_timeout = 0",
	("SELECT pg_catalog.set_config(name, '1s', false) FROM pg_catalog.pg_settings WHERE name = "
	 "'client_connection_check_interval'"),
};

static const char sql_distinct[] =
	"SELECT pg_catalog.count(DISTINCT id) + pg_catalog.count(DISTINCT digest) FROM wsonce_expected";

/* A fleet without a name has processed what is stored; a consumer's, what it says. Each of the two below
 * is indexed by whether there is a consumer. */
static const char sql_consumer[] = "SELECT pg_catalog.set_config('wsonce.consumer', $1::text, false)";

#define CONSUMER "pg_catalog.current_setting('wsonce.consumer')"

#define UNSTORED(table, condition) \
	"CREATE TEMPORARY TABLE wsonce_unstored AS SELECT x.id, x.digest, pg_catalog.min(x.at) AS at " \
	"FROM wsonce_expected AS x LEFT JOIN " table " AS e ON " condition \
	" e.event_id = x.id WHERE e.event_id IS NULL GROUP BY x.id, x.digest"

static const char *const sql_unstored[] = {
	UNSTORED(":schema.events", ""),
	UNSTORED(":schema.processed_events", "e.consumer = " CONSUMER " AND"),
};

/* What letters say of the rows of a table, by a row's offset: joined by id and by digest, each in one pass, however
 * many letters there are. One that was repaired, by storing an edited message, is neither missing nor to be fed again;
 * if it was stored as it was, its row should be there. */
#define LETTER_SAYS \
	DEAD_LETTERS_OPEN \
	" AS is_open, resolution = 'discarded' AS is_discarded, resolution IN ('persisted', 'duplicate')" \
	" AND (by_digest OR EXISTS (SELECT FROM :schema.dead_letter_actions AS a WHERE a.letter_id = d.id" \
	" AND a.action = 'retry-edited' AND a.outcome IN ('persisted', 'duplicate'))) AS is_repaired"

#define KNOWN(table) \
	"(SELECT at, CASE WHEN pg_catalog.bool_or(is_open) THEN 'open' WHEN pg_catalog.bool_or(is_discarded) THEN " \
	"'discarded'" \
	"  WHEN pg_catalog.bool_or(is_repaired) THEN 'resolved' END AS found FROM (" \
	"  SELECT u.at, " LETTER_SAYS " FROM " table \
	" AS u JOIN :schema.dead_letters AS d ON d.event_id = u.id COLLATE \"default\"" \
	"   CROSS JOIN (VALUES (false)) AS k (by_digest) WHERE d.consumer = " CONSUMER \
	"  UNION ALL SELECT u.at, " LETTER_SAYS " FROM " table \
	" AS u JOIN :schema.dead_letters AS d ON d.digest = CASE " CONSUMER \
	"    WHEN '' THEN u.digest ELSE pg_catalog.sha256(u.digest || pg_catalog.convert_to(" CONSUMER \
	", 'UTF8')) END" \
	"   CROSS JOIN (VALUES (true)) AS k (by_digest) WHERE d.consumer = " CONSUMER ") AS letters GROUP BY at)"

static const char sql_suspects[] =
	"CREATE TEMPORARY TABLE wsonce_suspects AS SELECT row_number() OVER (ORDER BY at) AS n, u.*,"
	" coalesce(k.found, 'missing') AS found FROM wsonce_unstored AS u LEFT JOIN " KNOWN(
		"wsonce_unstored") " AS k USING (at)";

static const char sql_number[] = "ALTER TABLE wsonce_suspects ADD PRIMARY KEY (n)";

static const char sql_counts[] = "SELECT count(*), count(*) FILTER (WHERE found = 'open'),"
				 " count(*) FILTER (WHERE found = 'discarded'),"
				 " count(*) FILTER (WHERE found = 'in flight'),"
				 " count(*) FILTER (WHERE found = 'missing'),"
				 " count(*) FILTER (WHERE found = 'resolved'),"
				 " count(*) FILTER (WHERE found = 'open' AND id IS NOT NULL) FROM wsonce_suspects";

/* $2 is one of these. */
#define MISSING      "missing"
#define OPEN_LETTERS "open"
#define RESUBMITTED  "missing, open with an id"

static const char sql_page[] =
	"SELECT n, id, at, coalesce(id, 'sha256:' || pg_catalog.encode(digest, 'hex'))"
	" FROM wsonce_suspects WHERE n > $1::bigint AND pg_catalog.strpos($2::text, found) > 0 AND (id IS NOT NULL"
	" OR found = 'missing' OR $2::text <> '" RESUBMITTED "') ORDER BY n LIMIT " PAGE_S;

static const char sql_in_flight[] = "UPDATE wsonce_suspects SET found = 'in flight' WHERE n = ANY($1::bigint[])";

#define STORED_NOW(table, condition) \
	"DELETE FROM wsonce_suspects WHERE n IN (SELECT u.n FROM (SELECT n, id FROM wsonce_suspects WHERE found = " \
	"'missing' OFFSET 0) AS u JOIN " table " AS e ON " condition " e.event_id = u.id)"

static const char *const sql_stored_now[] = {
	STORED_NOW(":schema.events", ""),
	STORED_NOW(":schema.processed_events", "e.consumer = " CONSUMER " AND"),
};

static const char sql_letters_now[] = "UPDATE wsonce_suspects AS s SET found = 'open' FROM " KNOWN(
	"wsonce_suspects") " AS k WHERE k.at = s.at AND s.found = 'missing' AND k.found = 'open'";

#define CLOSE(table, condition) \
	"WITH stored AS (SELECT d.id, d.digest, d.event_id FROM (SELECT id FROM wsonce_suspects WHERE found = 'open'" \
	" OFFSET 0) AS s JOIN " table " AS e ON " condition " e.event_id = s.id" \
	" JOIN :schema.dead_letters AS d ON d.event_id = s.id COLLATE \"default\"" \
	" WHERE d.consumer = " CONSUMER " AND " DEAD_LETTERS_OPEN " ORDER BY d.digest FOR UPDATE OF d)," \
	" closed AS (UPDATE :schema.dead_letters AS d SET resolved_at = now(), resolution = 'persisted'" \
	" FROM stored WHERE d.id = stored.id)" \
	" INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)" \
	" SELECT id, digest, event_id, 'retry', 'persisted', 'audit --resubmit', $1::text FROM stored"

static const char *const sql_close[] = {
	CLOSE(":schema.events", ""),
	CLOSE(":schema.processed_events", "e.consumer = " CONSUMER " AND"),
};

/* The statistics of a table that was just made are made by nobody else in time. */
static const char sql_analyze[] = "ANALYZE wsonce_unstored";

static const char sql_deleted[] = "SELECT rows_deleted_s / 86400 FROM :schema.wsonce_retention";

/* --- the same questions to a file, whose digests are texts as bytea's are --- */

static const char lite_distinct[] = "SELECT count(DISTINCT id) + count(DISTINCT digest) FROM wsonce_expected";

static const char lite_unstored[] =
	"CREATE TEMPORARY TABLE wsonce_unstored AS SELECT id, digest, min(at) AS at FROM wsonce_expected AS x"
	" WHERE x.id IS NULL OR x.id NOT IN (SELECT event_id FROM events WHERE event_id = x.id) GROUP BY id, digest";

#define LITE_SAYS \
	"max(CASE WHEN resolved_at IS NULL OR last_seen > resolved_at THEN 4 WHEN resolution = 'discarded' THEN 3" \
	" WHEN resolution IN ('persisted', 'duplicate') AND (u.digest IS NOT NULL OR EXISTS (SELECT 1 FROM" \
	" dead_letter_actions AS a WHERE a.letter_id = d.id AND a.action = 'retry-edited' AND a.outcome IN" \
	" ('persisted', 'duplicate'))) THEN 2 ELSE 1 END)"

#define LITE_KNOWN(table) \
	"(SELECT u.at AS at, " LITE_SAYS " AS says FROM " table \
	" AS u JOIN dead_letters AS d ON d.event_id = u.id OR d.digest = wsonce_bytes(u.digest) GROUP BY u.at)"

static const char lite_suspects[] =
	"CREATE TEMPORARY TABLE wsonce_suspects AS SELECT row_number() OVER (ORDER BY u.at) AS n, u.*, CASE k.says "
	"WHEN 4"
	" THEN 'open' WHEN 3 THEN 'discarded' WHEN 2 THEN 'resolved' ELSE 'missing' END AS found FROM wsonce_unstored "
	"AS u"
	" LEFT JOIN " LITE_KNOWN("wsonce_unstored") " AS k ON k.at = u.at;"
						    " CREATE INDEX temp.wsonce_suspects_n ON wsonce_suspects (n)";

static const char lite_page[] = "SELECT n, id, at, coalesce(id, 'sha256:' || substr(digest, 3)) FROM wsonce_suspects"
				" WHERE n > CAST(?1 AS INTEGER) AND instr(?2, found) > 0 AND (id IS NOT NULL OR found ="
				" 'missing' OR ?2 <> '" RESUBMITTED "') ORDER BY n LIMIT " PAGE_S;

static const char lite_in_flight[] = "UPDATE wsonce_suspects SET found = 'in flight' WHERE n IN"
				     " (SELECT value FROM json_each('[' || trim(?1, '{}') || ']'))";

static const char lite_stored_now[] =
	"DELETE FROM wsonce_suspects WHERE found = 'missing' AND id IN (SELECT event_id FROM events)";

static const char lite_letters_now[] =
	"UPDATE wsonce_suspects SET found = 'open' WHERE found = 'missing' AND at IN (SELECT at FROM " LITE_KNOWN(
		"wsonce_suspects") " WHERE says = 4)";

#define LITE_CLOSED \
	DEAD_LETTERS_OPEN " AND event_id IN (SELECT id FROM wsonce_suspects WHERE found = 'open' AND id IN" \
		     " (SELECT event_id FROM events))"

static const char lite_close[] =
	"INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, db_user, instance_id, "
	"done_at) SELECT id, digest, event_id, 'retry', 'persisted', 'audit --resubmit', wsonce_user(''), "
	"?1, " DEAD_LETTERS_LITE_NOW " FROM dead_letters WHERE " LITE_CLOSED ";"
	"UPDATE dead_letters SET resolved_at = " DEAD_LETTERS_LITE_NOW ", resolution = 'persisted' WHERE " LITE_CLOSED;

static const char lite_deleted[] = "SELECT rows_deleted_s / 86400 FROM wsonce_retention";

static int run_either(struct audit *a, const char *sql, const char *lite)
{
	struct pg_result *rows = session_ask_either(a->session, sql, lite, 0, NULL);
	int result = rows ? 0 : -1;

	session_drop(rows);
	return result;
}

static int run(struct audit *a, const char *sql)
{
	struct pg_result *rows = session_ask(a->session, sql, 0, NULL);
	int result = rows ? 0 : -1;

	session_drop(rows);
	return result;
}

static bool has_consumer(const struct audit *a)
{
	return *a->in->config->consumer;
}

static int set_consumer(struct audit *a)
{
	const char *values[] = {a->in->config->consumer};
	struct pg_result *rows = session_ask(a->session, sql_consumer, 1, values);

	session_drop(rows);
	return rows ? 0 : -1;
}

static int find_unstored(struct audit *a)
{
	struct pg_result *rows;

	progress_show("counting %" PRIu64 " lines", a->expected.lines);
	rows = session_ask_either(a->session, sql_distinct, lite_distinct, 0, NULL);
	if (!rows)
		return -1;
	a->distinct = session_number(rows, 0, 0);
	session_drop(rows);
	progress_show("comparing with the table");
	if (session_is_file(a->session))
		return run_either(a, NULL, lite_unstored) || run_either(a, NULL, lite_suspects) ? -1 : 0;
	return run(a, sql_unstored[has_consumer(a)]) || run(a, sql_analyze) || run(a, sql_suspects) ||
			       run(a, sql_number)
		       ? -1
		       : 0;
}

/* The next rows of those that are wanted, after the row in a->last. */
static struct pg_result *next_page(struct audit *a, const char *wanted)
{
	const char *values[] = {a->last, wanted};
	struct pg_result *rows = session_ask_either(a->session, sql_page, lite_page, 2, values);

	if (rows && session_count(rows))
		snprintf(a->last, sizeof(a->last), "%s", session_text(rows, session_count(rows) - 1, 0));
	return rows;
}

static void first_page(struct audit *a)
{
	snprintf(a->last, sizeof(a->last), "0");
}

static struct slice id_in(const struct pg_result *rows, size_t row)
{
	const char *id = session_text(rows, row, 1);

	return (struct slice){id, strlen(id)};
}

/* --- questions to Redis --- */

static int mark_in_flight(struct audit *a, const struct pg_result *rows, const bool *is_claimed)
{
	struct dead_letter_ids claimed = {NULL, 0, 0};
	int64_t numbers[PAGE];
	struct pg_result *done;
	char *array;

	claimed.at = numbers;
	for (size_t i = 0; i < session_count(rows); i++)
		if (is_claimed[i])
			numbers[claimed.count++] = session_number(rows, i, 0);
	if (!claimed.count)
		return 0;
	array = dead_letter_ids_array(&claimed, 0, claimed.count);
	done = session_ask_either(a->session, sql_in_flight, lite_in_flight, 1, (const char *[]){array});
	free(array);
	session_drop(done);
	return done ? 0 : -1;
}

static int look_at_page(struct audit *a, const struct pg_result *rows)
{
	struct slice ids[PAGE];
	bool is_claimed[PAGE];

	for (size_t i = 0; i < session_count(rows); i++)
		ids[i] = id_in(rows, i);
	if (redis_query_find_claimed(a->marks, ids, session_count(rows), is_claimed)) {
		dispatch_fail("redis does not answer; cannot tell what is in flight");
		redis_query_close(a->marks);
		a->marks = NULL;
		return 0;
	}
	return mark_in_flight(a, rows, is_claimed);
}

static int find_in_flight(struct audit *a)
{
	struct pg_result *rows = NULL;
	int result = 0;

	first_page(a);
	while (!result && a->marks && (rows = next_page(a, MISSING)) && session_count(rows)) {
		progress_show("asking redis: %s", a->last);
		result = look_at_page(a, rows);
		session_drop(rows);
		rows = NULL;
	}
	if (a->marks && !rows)
		result = -1;
	session_drop(rows);
	return result;
}

/* --- counts --- */

static int count(struct audit *a)
{
	struct pg_result *rows = session_ask_either(a->session, sql_counts, sql_counts, 0, NULL);

	if (!rows)
		return -1;
	a->stored = a->distinct - session_number(rows, 0, 0);
	a->dead_lettered = session_number(rows, 0, 1);
	a->discarded = session_number(rows, 0, 2);
	a->in_flight = session_number(rows, 0, 3);
	a->missing = session_number(rows, 0, 4);
	a->resolved = session_number(rows, 0, 5);
	a->retriable = session_number(rows, 0, 6);
	session_drop(rows);
	return 0;
}

/* Limits of the session, which a file has not. */
static int prepare(struct audit *a)
{
	if (session_is_file(a->session))
		return 0;
	for (size_t i = 0; i < sizeof(sql_prepare) / sizeof(sql_prepare[0]); i++)
		if (run(a, sql_prepare[i]))
			return -1;
	return set_consumer(a);
}

static int compare(struct audit *a)
{
	if (prepare(a) || audit_list_load(&a->expected, a->lines, a->session, a->in->config))
		return -1;
	if (!a->expected.lines) {
		dispatch_fail("%s: the list of expected events is empty", a->o->expected);
		return -1;
	}
	if (find_unstored(a))
		return -1;
	a->marks = redis_query_open(a->in->config);
	if (find_in_flight(a) || run_either(a, sql_stored_now[has_consumer(a)], lite_stored_now) ||
	    run_either(a, sql_letters_now, lite_letters_now))
		return -1;
	return count(a);
}

/* --- the report --- */

/* Calls put for the ids that are wanted, at most limit of them. */
static int each(struct audit *a, const char *wanted, int64_t limit, void (*put)(void *arg, const char *id), void *arg)
{
	struct pg_result *rows;
	size_t n = 1;

	first_page(a);
	while (n && limit > 0) {
		rows = next_page(a, wanted);
		if (!rows)
			return -1;
		n = session_count(rows);
		for (size_t i = 0; i < n && limit-- > 0; i++)
			put(arg, session_text(rows, i, 3));
		session_drop(rows);
	}
	return 0;
}

static void put_json(void *arg, const char *id)
{
	json_out_item(arg, json_out_string(id));
}

static void put_text(void *arg, const char *id)
{
	json_out_text(id, strlen(id), true);
	puts(arg);
}

static void put_file(void *arg, const char *id)
{
	fprintf(arg, "%s\n", id);
}

static int cannot_write(const struct audit *a)
{
	dispatch_fail("--missing-to: cannot write %s: %s", a->o->missing_to, strerror(errno));
	return -1;
}

/* Written beside what is there, which stays until all is written; what is no file is written as it is. */
static int write_missing(struct audit *a)
{
	const char *path = a->o->missing_to;
	struct stat st;
	bool is_beside = stat(path, &st) || S_ISREG(st.st_mode);
	char part[4100];
	FILE *out;
	int failed;

	snprintf(part, sizeof(part), is_beside ? "%s.part" : "%s", path);
	out = fopen(part, "we");
	if (!out)
		return cannot_write(a);
	failed = each(a, MISSING, INT64_MAX, put_file, out);
	if (ferror(out) | fclose(out))
		return cannot_write(a);
	if (!failed && is_beside && rename(part, path))
		return cannot_write(a);
	return failed; /* why a question failed, has been told */
}

/* Is what --missing-to writes what --expected reads? */
static bool is_overwriting(const struct audit *a)
{
	char part[4100];

	if (!a->o->missing_to)
		return false;
	snprintf(part, sizeof(part), "%s.part", a->o->missing_to);
	return ndjson_is_file(a->lines, a->o->missing_to) || ndjson_is_file(a->lines, part);
}

static int report_json(struct audit *a, struct json_out *out)
{
	const struct {
		const char *name;
		int64_t value;
	} members[] = {
		{"lines", (int64_t)a->expected.lines},
		{"too_young", (int64_t)a->expected.too_young},
		{"too_old", (int64_t)a->expected.too_old},
		{"without_time", (int64_t)a->expected.without_time},
		{"expected", a->distinct},
		{"stored", a->stored},
		{"dead_lettered", a->dead_lettered},
		{"discarded", a->discarded},
		{"resolved", a->resolved},
		{"missing", a->missing},
	};
	int result;

	json_out_open(out);
	json_out_member(out, "format", json_out_string(a->expected.format));
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_out_member(out, members[i].name, json_integer((json_int_t)members[i].value));
	json_out_member(out, "in_flight", a->marks ? json_integer((json_int_t)a->in_flight) : json_null());
	json_out_list(out, "missing_ids");
	result = each(a, MISSING, INT64_MAX, put_json, out);
	json_out_list_end(out);
	json_out_list(out, "dead_letter_ids");
	result = result || each(a, OPEN_LETTERS, INT64_MAX, put_json, out) ? -1 : 0;
	json_out_list_end(out);
	return result;
}

static void print_count(const char *name, int64_t value, const char *more)
{
	printf("%-14s %12" PRId64 "%s\n", name, value, more);
}

static int report_text(struct audit *a)
{
	const struct audit_list *e = &a->expected;
	int64_t unstored = a->missing + a->dead_lettered;
	int result;

	print_count("lines", (int64_t)e->lines, "");
	if (e->too_young)
		print_count("too young", (int64_t)e->too_young, "  left out by --grace");
	if (e->too_old)
		print_count("too old", (int64_t)e->too_old, "  left out by --horizon");
	if (e->without_time)
		print_count("without time", (int64_t)e->without_time, "  not left out");
	print_count("expected", a->distinct, "  different events");
	print_count("stored", a->stored, "");
	print_count("dead letters", a->dead_lettered, "");
	if (a->discarded)
		print_count("discarded", a->discarded, "");
	if (a->resolved)
		print_count("resolved", a->resolved, "  stored by an edited message");
	if (a->marks)
		print_count("in flight", a->in_flight, "");
	else
		printf("%-14s %12s\n", "in flight", "not known");
	print_count("missing", a->missing, "");
	if (unstored && a->o->limit)
		putchar('\n');
	result = each(a, MISSING, a->o->limit, put_text, "") ||
		 each(a, OPEN_LETTERS, a->o->limit - a->missing, put_text, "  (dead letter)");
	if (unstored > a->o->limit)
		printf("and %" PRId64 " more: --json has all\n", unstored - a->o->limit);
	return result;
}

/* --- resubmitting --- */

/* Marks that say of a missing event that it is stored or a dead letter are no longer true: the
 * database was put back to an older state, say. They would settle it at once. */
static void forget_marks(struct audit *a, const struct pg_result *rows)
{
	struct slice ids[PAGE];
	size_t n = 0;

	for (size_t i = 0; i < session_count(rows); i++)
		if (!session_is_null(rows, i, 1))
			ids[n++] = id_in(rows, i);
	if (!n || redis_query_forget(a->marks, ids, n, true) == 0)
		return;
	dispatch_fail("redis does not answer; its marks are not deleted");
	redis_query_close(a->marks);
	a->marks = NULL;
}

/* The next missing row, 1; 0 at the end; or -1. */
static int next_row(struct audit *a)
{
	if (a->page && a->row < session_count(a->page))
		return 1;
	session_drop(a->page);
	a->row = 0;
	a->page = next_page(a, RESUBMITTED);
	if (!a->page)
		return -1;
	forget_marks(a, a->page);
	return session_count(a->page) > 0;
}

static enum feeder_pull pull(void *owner, struct feeder *f, struct feeder_message *m)
{
	struct audit *a = owner;
	struct ndjson_line line;
	int found = next_row(a);

	(void)f;
	if (found <= 0)
		return found ? FEEDER_FAILED : FEEDER_END;
	if (ndjson_skip(a->lines, (uint64_t)session_number(a->page, a->row++, 2)) ||
	    ndjson_wait(a->lines, &line) != NDJSON_LINE)
		return FEEDER_FAILED;
	*m = (struct feeder_message){line.bytes, line.len, NULL, line.digest, line.total, 0, 0};
	return FEEDER_MESSAGE;
}

static void on_settled(void *owner, uint64_t tag, enum outcome outcome, const char *reason)
{
	(void)owner, (void)tag, (void)outcome, (void)reason;
}

static void on_tick(void *owner)
{
	const struct audit *a = owner;

	progress_show("resubmitting: %s of %" PRId64, a->last, a->missing + a->retriable);
}

/* The letters of what is stored now are off the list. */
static int close_letters(struct audit *a)
{
	const char *values[] = {a->in->config->instance_id};
	struct pg_result *rows = session_ask_either(a->session, sql_close[has_consumer(a)], lite_close, 1, values);

	session_drop(rows);
	return rows ? 0 : -1;
}

static int resubmit(struct audit *a, struct json_out *out)
{
	const struct feeder_owner owner = {pull, on_settled, on_tick, a, "audit"};
	struct feeder_count c;
	int64_t left;

	first_page(a);
	if (feeder_run(a->in->config, &owner, &c))
		return STATUS_FAILED;
	progress_clear();
	if (a->retriable && close_letters(a))
		return STATUS_FAILED;
	left = a->missing + a->retriable - (int64_t)(c.persisted + c.duplicates + c.rejected);
	if (a->o->is_json)
		json_out_member(out, "resubmitted",
				json_pack("{s:I, s:I, s:I, s:I}", "persisted", (json_int_t)c.persisted, "duplicates",
					  (json_int_t)c.duplicates, "rejected", (json_int_t)c.rejected, "left",
					  (json_int_t)left));
	else
		printf("\nresubmitted %" PRIu64 ": persisted %" PRIu64 ", stored meanwhile %" PRIu64
		       ", rejected %" PRIu64 "\n",
		       c.fed, c.persisted, c.duplicates, c.rejected);
	if (left)
		dispatch_fail("%" PRId64 " were not resubmitted or have no outcome yet; run again", left);
	return left || c.rejected ? STATUS_FAILED : STATUS_FINE;
}

/* --- the command --- */

static int report(struct audit *a)
{
	int status = a->missing || a->in_flight || a->dead_lettered ? STATUS_FAILED : STATUS_FINE;
	struct json_out out;

	progress_clear();
	if (a->o->missing_to && write_missing(a))
		return STATUS_FAILED;
	if (a->o->is_json ? report_json(a, &out) : report_text(a))
		status = STATUS_FAILED;
	else if (a->o->is_resubmit && (a->missing || a->retriable))
		status = resubmit(a, &out) || a->retriable < a->dead_lettered ? STATUS_FAILED : STATUS_FINE;
	if (a->o->is_json)
		json_out_close(&out);
	return status;
}

/* What purge --delete-rows took is not there, and not told from what never came. */
static void tell_deleted(struct audit *a)
{
	struct pg_result *rows = a->missing ? session_ask_either(a->session, sql_deleted, lite_deleted, 0, NULL) : NULL;

	if (rows && session_count(rows))
		dispatch_fail(
			"rows of events older than %s days were deleted by purge --delete-rows: they count as missing "
			"(--horizon leaves them out)",
			session_text(rows, 0, 0));
	session_drop(rows);
}

static int audit(struct audit *a)
{
	if (compare(a) == 0) {
		tell_deleted(a);
		return report(a);
	}
	progress_clear();
	return a->expected.is_wrong_use ? STATUS_USAGE : STATUS_FAILED;
}

static int copy_all(int in, FILE *copy)
{
	char buffer[65536];
	ssize_t n;

	while ((n = read(in, buffer, sizeof(buffer))) > 0)
		if (fwrite(buffer, 1, (size_t)n, copy) != (size_t)n)
			return -1;
	return n || fflush(copy) ? -1 : 0;
}

/* A pipe can be read once, and what is missing is read again: it goes to a file that has no name. */
static struct ndjson *open_spooled(const char *path, size_t max_bytes)
{
	const char *given = getenv("TMPDIR"), *folder = given ? given : "/tmp";
	int in = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	int fd = in < 0 ? -1 : open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	FILE *copy = fd < 0 ? NULL : fdopen(fd, "w");
	struct ndjson *lines = NULL;
	char name[40];

	if (in < 0)
		dispatch_fail("%s: %s", path, strerror(errno));
	else if (!copy || copy_all(in, copy))
		dispatch_fail("cannot copy %s to %s for resubmitting: %s", path, folder, strerror(errno));
	else if (snprintf(name, sizeof(name), "/proc/self/fd/%d", fd) > 0)
		lines = ndjson_open(name, max_bytes);
	if (copy)
		fclose(copy);
	if (in >= 0)
		close(in);
	return lines;
}

/* What a name is of must be known before it is opened: opened twice, a pipe would lose what it brought. */
static bool is_stream(const char *path)
{
	struct stat st;
	int failed = strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &st) : stat(path, &st);

	return !failed && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static struct ndjson *open_lines(const struct audit *a)
{
	size_t max_bytes = (size_t)a->in->config->message_bytes;

	if (a->o->is_resubmit && is_stream(a->o->expected))
		return open_spooled(a->o->expected, max_bytes);
	return ndjson_open(a->o->expected, max_bytes);
}

static int run_audit(const struct invocation *in)
{
	const struct audit_options *o = in->options;
	struct audit a = {.in = in, .o = o, .expected = {.format = o->format}};
	int status = STATUS_FAILED;

	a.expected.needs_events = o->is_resubmit;
	a.expected.before_us = o->grace_us ? clock_us(CLOCK_REALTIME) - o->grace_us : 0;
	a.expected.after_us = o->horizon_us ? clock_us(CLOCK_REALTIME) - o->horizon_us : 0;
	a.lines = open_lines(&a);
	if (a.lines && is_overwriting(&a)) {
		ndjson_close(a.lines);
		dispatch_fail("--missing-to: %s (or its temporary file) is the --expected file itself", o->missing_to);
		return STATUS_USAGE;
	}
	if (a.lines)
		a.session = session_open(in->config);
	if (a.session)
		status = o->is_resubmit ? effects_guard_check(a.session, in->config) : STATUS_FINE;
	if (a.session && status == STATUS_FINE)
		status = audit(&a);
	session_drop(a.page);
	session_close(a.session);
	redis_query_close(a.marks);
	ndjson_close(a.lines);
	return status;
}

static const char *check_audit(const struct invocation *in)
{
	const struct audit_options *o = in->options;

	if (!o->expected)
		return "--expected FILE is missing: the ids or events that should be there";
	if ((o->grace_us || o->horizon_us) && !in->config->time_pointer &&
	    !(o->format && strcmp(o->format, "csv") == 0))
		return "--grace and --horizon need --time-pointer, which says where an event's time is, or --format "
		       "csv";
	return NULL;
}

const struct subcommand audit_command = {
	.name = "audit",
	.arguments = "",
	.summary = "find out which expected events are missing",
	.help = "Compares a list of events with what is stored, and tells how many are stored, dead letters, in\n"
		"flight (claimed in Redis by somebody who is at work) and missing. Exit status 1 if any is not "
		"stored.\n"
		"With --consumer NAME, stored is what that consumer has processed.\n",
	.options = audit_options,
	.option_count = sizeof(audit_options) / sizeof(audit_options[0]),
	.options_size = sizeof(struct audit_options),
	.defaults = &audit_defaults,
	.check = check_audit,
	.run = run_audit,
};
