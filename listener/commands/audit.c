/* audit.c owns `wsonce audit`: which expected events are stored, and what happened to the others. The list is joined in
 * the database; sql/queries/audit_begin.sql has the tables.
 *
 * It asks the database, then Redis about missing events, then the database again: an event that is stored meanwhile had
 * a claim when Redis was asked, or has a row the second time. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit_again.sql.h"
#include "audit_begin.sql.h"
#include "audit_close.sql.h"
#include "audit_compare.sql.h"
#include "audit_count.sql.h"
#include "audit_dead_letters.sql.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "commands/audit_list.h"
#include "commands/table.h"
#include "commands/guards.h"
#include "commands/feeder.h"
#include "commands/json_out.h"
#include "commands/lines.h"
#include "commands/ndjson.h"
#include "commands/progress.h"
#include "commands/redis_query.h"
#include "commands/session.h"
#include "sqlite_audit_begin.sql.h"
#include "sqlite_audit_close.sql.h"

#define PAGE   512 /* rows read at once, and ids in one command to Redis */
#define PAGE_S "512"

#define MINUTE_US     INT64_C(60000000)
#define MONTH_MINUTES 44640

/* Columns of audit_count.sql. */
enum count {
	EXPECTED,
	STORED,
	DEAD_LETTERS,
	DISCARDED,
	RESOLVED,
	IN_FLIGHT,
	MISSING,
	OPEN,     /* dead letters with an id */
	NO_EVENT, /* dead letters of lines that are not events */
	COUNTS,
};

#define DELETED_DAYS COUNTS /* the column after the counts */

struct audit {
	const struct invocation *in;
	const struct given *o;
	struct session *session;
	struct redis_query *marks; /* NULL: Redis cannot be asked */
	struct ndjson *lines;
	struct audit_list expected;
	char *verified; /* NULL: without --from-lines */
	int64_t counts[COUNTS];
	/* Rows of wsonce_suspects that are being read. */
	struct pg_result *page;
	size_t row;
	char last[24]; /* at of the page's last row */
};

/* --- the database --- */

static const char sql_consumer[] = "SELECT pg_catalog.set_config('wsonce.consumer', $1::text, false)";

/* Indexed by whether there is a consumer: without one, a row in events means stored. */
static const char *const sql_stored[] = {
	"CREATE TEMPORARY VIEW wsonce_stored AS SELECT event_id FROM :schema.events",
	"CREATE TEMPORARY VIEW wsonce_stored AS SELECT event_id FROM :schema.processed_events"
	" WHERE consumer = pg_catalog.current_setting('wsonce.consumer')",
};

/* The next rows that have one of the states in the second parameter. */
#define NEXT_PAGE(mark) \
	"SELECT at, id, coalesce(id, name) FROM wsonce_suspects WHERE at > CAST(" mark "1 AS bigint)" \
	" AND " mark "2 LIKE '%' || found || '%' ORDER BY at LIMIT " PAGE_S

static const char sql_page[] = NEXT_PAGE("$"), lite_page[] = NEXT_PAGE("?");
static const char missing[] = "missing", dead_lettered[] = "open, no event", resubmitted[] = "missing, open";

static const char sql_in_flight[] = "UPDATE wsonce_suspects SET found = 'in flight' WHERE at = ANY($1::bigint[])";
static const char lite_in_flight[] = "UPDATE wsonce_suspects SET found = 'in flight' WHERE at IN"
				     " (SELECT value FROM json_each('[' || trim(?1, '{}') || ']'))";

static int begin(struct audit *a)
{
	const char *consumer = a->in->config->consumer;

	if (session_is_file(a->session))
		return session_run_alone(a->session, SQL_SQLITE_AUDIT_BEGIN);
	return session_run(a->session, sql_consumer, NULL, "s", consumer) ||
			       session_run_alone(a->session, SQL_AUDIT_BEGIN) ||
			       session_run_alone(a->session, sql_stored[*consumer != '\0'])
		       ? -1
		       : 0;
}

/* Moves before the first row of wsonce_suspects. */
static void rewind_rows(struct audit *a)
{
	session_drop(a->page);
	a->page = NULL;
	a->row = 0;
	snprintf(a->last, sizeof(a->last), "-1");
}

/* Returns the number of rows in the next page, 0 at the end; or -1. */
static int next_page(struct audit *a, const char *states)
{
	size_t n;

	session_drop(a->page);
	a->row = 0;
	a->page = session_query(a->session, sql_page, lite_page, "ss", a->last, states);
	if (!a->page)
		return -1;
	n = session_count(a->page);
	if (n)
		snprintf(a->last, sizeof(a->last), "%s", session_text(a->page, n - 1, 0));
	return (int)n;
}

/* Reads the next page if the current one has no row left. Returns a number above 0, 0 at the end, or -1. */
static int find_row(struct audit *a, const char *states)
{
	return a->page && a->row < session_count(a->page) ? 1 : next_page(a, states);
}

/* Sets *name to the id or the digest of the next row. Returns as above. */
static int next_name(struct audit *a, const char *states, const char **name)
{
	int found = find_row(a, states);

	if (found > 0)
		*name = session_text(a->page, a->row++, 2);
	return found;
}

/* An event whose row purge deleted looks like one that never came. */
static int count(struct audit *a)
{
	AUTO_ROWS *rows = session_query(a->session, SQL_AUDIT_COUNT, SQL_AUDIT_COUNT, "");

	if (!rows)
		return -1;
	for (int i = 0; i < COUNTS; i++)
		a->counts[i] = session_number(rows, 0, i);
	if (a->counts[MISSING] && !session_is_null(rows, 0, DELETED_DAYS))
		dispatch_fail("rows of events older than %s days were deleted by purge --delete-rows: they count as "
			      "missing (--horizon leaves them out)",
			      session_text(rows, 0, DELETED_DAYS));
	return 0;
}

/* --- Redis --- */

static int mark_in_flight(struct audit *a, int n)
{
	AUTO_BYTES claimed = {NULL, 0, 0};
	bool is_claimed[PAGE];
	struct slice ids[PAGE] = {{NULL, 0}};

	for (int i = 0; i < n; i++) {
		ids[i].at = session_text(a->page, (size_t)i, 1);
		ids[i].len = strlen(ids[i].at);
	}
	if (redis_query_find_claimed(a->marks, ids, (size_t)n, is_claimed)) {
		dispatch_fail("cannot ask redis: %s; cannot tell what is in flight", redis_query_failure());
		redis_query_close(a->marks);
		a->marks = NULL;
		return 0;
	}
	for (int i = 0; i < n; i++)
		if (is_claimed[i]) {
			bytes_add_text(&claimed, claimed.len ? "," : "{");
			bytes_add_text(&claimed, session_text(a->page, (size_t)i, 0));
		}
	if (!claimed.len)
		return 0;
	bytes_add_text(&claimed, "}");
	return session_run(a->session, sql_in_flight, lite_in_flight, "s", bytes_text(&claimed));
}

static int find_in_flight(struct audit *a)
{
	int n = 1, failed = 0;

	a->marks = redis_query_open(a->in->config);
	rewind_rows(a);
	while (!failed && a->marks && (n = next_page(a, missing)) > 0) {
		progress_show("asking redis: line at byte %s", a->last);
		failed = mark_in_flight(a, n);
	}
	return failed || n < 0 ? -1 : 0;
}

/* Reads the minutes of the last month, which may take a second for each source. */
static int read_lines(struct audit *a)
{
	struct audit_list *e = &a->expected;

	if (!a->o->is_from_lines)
		return 0;
	e->end = clock_us(CLOCK_REALTIME) / MINUTE_US - 2;
	e->from = e->end - MONTH_MINUTES;
	progress_show("reading which minutes are verified");
	a->verified = lines_verified(a->session, a->in->config->consumer, e->from, e->end);
	e->verified = a->verified;
	return a->verified ? 0 : -1;
}

static int find_all(struct audit *a)
{
	if (read_lines(a) || begin(a) || audit_list_load(&a->expected, a->lines, a->session, a->in->config))
		return -1;
	if (!a->expected.lines)
		return dispatch_fail("%s: the list of expected events is empty", a->o->expected);
	progress_show("comparing %" PRIu64 " lines with the table", a->expected.lines);
	return session_run_alone(a->session, SQL_AUDIT_COMPARE) ||
	       session_run_alone(a->session, SQL_AUDIT_DEAD_LETTERS) || find_in_flight(a) ||
	       session_run_alone(a->session, SQL_AUDIT_AGAIN) ||
	       session_run_alone(a->session, SQL_AUDIT_DEAD_LETTERS) || count(a);
}

/* --- the report --- */

static int cannot_write(const struct audit *a)
{
	return dispatch_fail("--missing-to: cannot write %s: %s", a->o->missing_to, strerror(errno));
}

/* Writes a file beside the old one and renames it at the end; writes directly to a device or pipe. */
static int write_missing(struct audit *a)
{
	const char *path = a->o->missing_to, *name;
	struct stat st;
	bool is_beside = stat(path, &st) || S_ISREG(st.st_mode);
	char part[4100];
	FILE *out;
	int found;

	snprintf(part, sizeof(part), is_beside ? "%s.part" : "%s", path);
	if (is_beside)
		unlink(part); /* somebody else may have put a link there; "x" refuses to follow a new one */
	if (!(out = fopen(part, is_beside ? "wxe" : "we")))
		return cannot_write(a);
	rewind_rows(a);
	while ((found = next_name(a, missing, &name)) > 0)
		fprintf(out, "%s\n", name);
	if (ferror(out) | fclose(out) || (!found && is_beside && rename(part, path)))
		return cannot_write(a);
	return found;
}

struct figure {
	const char *name;   /* in text */
	const char *member; /* in JSON */
	int64_t value;      /* -1: not known */
	bool is_optional;   /* not printed as text if 0 */
	const char *remark;
};

static void print_text(const struct figure *f)
{
	if (f->value >= 0)
		printf("%-14s %12" PRId64 "%s\n", f->name, f->value, f->remark);
	else
		printf("%-14s %12s\n", f->name, "not known");
}

static int list_json(struct audit *a, struct json_out *out, const char *list, const char *states)
{
	const char *name;
	int found;

	json_out_list(out, list);
	rewind_rows(a);
	while ((found = next_name(a, states, &name)) > 0)
		json_out_item(out, json_out_string(name));
	json_out_list_end(out);
	return found;
}

static int list_text(struct audit *a, const char *states, int64_t limit, const char *remark)
{
	const char *name;
	int found = 0;

	rewind_rows(a);
	for (; limit > 0 && (found = next_name(a, states, &name)) > 0; limit--)
		json_out_line("%s%s", name, remark);
	return found < 0 ? -1 : 0;
}

static int list_both(struct audit *a)
{
	int64_t limit = a->o->limit, unstored = a->counts[MISSING] + a->counts[DEAD_LETTERS];
	int failed;

	if (unstored && limit)
		putchar('\n');
	failed = list_text(a, missing, limit, "") ||
		 list_text(a, dead_lettered, limit - a->counts[MISSING], "  (dead letter)");
	if (unstored > limit)
		printf("and %" PRId64 " more: --json has all\n", unstored - limit);
	return failed;
}

static int print(struct audit *a, struct json_out *out)
{
	const struct audit_list *e = &a->expected;
	const int64_t *n = a->counts;
	const struct figure figures[] = {
		{"lines", "lines", (int64_t)e->lines, false, ""},
		{"header", "header", e->has_header, true, "  line, the first one, left out"},
		{"too young", "too_young", e->too_young, true, "  left out by --grace"},
		{"too old", "too_old", e->too_old, true, "  left out by --horizon"},
		{"verified", "verified", e->is_verified, true, "  left out by --from-lines"},
		{"without time", "without_time", e->without_time, true, "  not left out"},
		{"expected", "expected", n[EXPECTED], false, "  different events"},
		{"stored", "stored", n[STORED], false, ""},
		{"dead letters", "dead_lettered", n[DEAD_LETTERS], false, ""},
		{"discarded", "discarded", n[DISCARDED], true, ""},
		{"resolved", "resolved", n[RESOLVED], true, "  stored by an edited message"},
		{"in flight", "in_flight", a->marks ? n[IN_FLIGHT] : -1, false, ""},
		{"missing", "missing", n[MISSING], false, ""},
	};

	if (a->o->is_json) {
		json_out_open(out);
		json_out_member(out, "format", json_out_string(e->format));
	}
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		if (a->o->is_json)
			json_out_member(out, figures[i].member,
					figures[i].value >= 0 ? json_integer((json_int_t)figures[i].value) : NULL);
		else if (figures[i].value || !figures[i].is_optional)
			print_text(&figures[i]);
	if (!a->o->is_json)
		return list_both(a);
	return list_json(a, out, "missing_ids", missing) || list_json(a, out, "dead_letter_ids", dead_lettered);
}

/* --- resubmitting --- */

/* The pipeline asks the store about events with marks, which are wrong if the database was restored. */
static void feed_lines(void *owner, struct feeder *f)
{
	struct audit *a = owner;
	struct ndjson_line line;

	rewind_rows(a);
	while (find_row(a, resubmitted) > 0 && feeder_has_room(f) &&
	       !ndjson_skip(a->lines, (uint64_t)session_number(a->page, a->row++, 0)) &&
	       ndjson_wait(a->lines, &line) == NDJSON_LINE) {
		feeder_feed(f, &(struct feeder_message){.bytes = line.bytes, .len = line.len});
	}
}

static void on_tick(void *owner)
{
	const struct audit *a = owner;

	progress_show("resubmitting %" PRId64 ": line at byte %s", a->counts[MISSING] + a->counts[OPEN], a->last);
}

static int resubmit(struct audit *a, struct json_out *out)
{
	const struct feeder_owner owner = {feed_lines, NULL, on_tick, a, "audit"};
	struct feeder_count c;
	int64_t left;

	if (feeder_run(a->in->config, &owner, &c))
		return STATUS_FAILED;
	progress_clear();
	if (a->counts[OPEN] &&
	    session_run(a->session, SQL_AUDIT_CLOSE, SQL_SQLITE_AUDIT_CLOSE, "s", a->in->config->instance_id))
		return STATUS_FAILED;
	left = a->counts[MISSING] + a->counts[OPEN] - (int64_t)(c.persisted + c.duplicates + c.rejected);
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
	return left || c.rejected || a->counts[NO_EVENT] ? STATUS_FAILED : STATUS_FINE;
}

/* --- the command --- */

static int report(struct audit *a)
{
	const int64_t *n = a->counts;
	int status = n[MISSING] || n[IN_FLIGHT] || n[DEAD_LETTERS] ? STATUS_FAILED : STATUS_FINE;
	struct json_out out;

	progress_clear();
	if (a->o->missing_to && write_missing(a))
		return STATUS_FAILED;
	if (print(a, &out))
		status = STATUS_FAILED;
	else if (a->o->is_resubmit && (n[MISSING] || n[OPEN]))
		status = resubmit(a, &out);
	if (a->o->is_json)
		json_out_close(&out);
	return status;
}

static int audit(struct audit *a)
{
	if (find_all(a) == 0)
		return report(a);
	progress_clear();
	return a->expected.is_wrong_use ? STATUS_USAGE : STATUS_FAILED;
}

int audit_command(const struct invocation *in)
{
	const struct given *o = in->options;
	struct audit a = {.in = in, .o = o, .expected = {.format = o->format}};
	int status = STATUS_FAILED;

	a.expected.needs_events = o->is_resubmit;
	a.expected.before_us = o->grace_us ? clock_us(CLOCK_REALTIME) - o->grace_us : 0;
	a.expected.after_us = o->horizon_us ? clock_us(CLOCK_REALTIME) - o->horizon_us : 0;
	a.lines = ndjson_open(o->expected, (size_t)in->config->message_bytes);
	if (a.lines && o->missing_to && ndjson_would_lose(a.lines, o->missing_to)) {
		ndjson_close(a.lines);
		return dispatch_refuse("--missing-to: %s (or its temporary file) is the --expected file itself",
				       o->missing_to);
	}
	if (a.lines && (!o->is_resubmit || ndjson_keep(a.lines) == 0))
		a.session = session_open(in->config, SESSION_UPGRADE);
	if (a.session)
		status = o->is_resubmit ? effects_guard_check(a.session, in->config) : STATUS_FINE;
	if (a.session && status == STATUS_FINE)
		status = audit(&a);
	session_drop(a.page);
	session_close(a.session);
	redis_query_close(a.marks);
	ndjson_close(a.lines);
	free(a.verified);
	return status;
}

const char *audit_check(const struct invocation *in)
{
	const struct given *o = in->options;

	if (!o->expected)
		return "--expected FILE is missing: the ids or events that should be there";
	if ((o->grace_us || o->horizon_us || o->is_from_lines) && !in->config->time_pointer &&
	    !(o->format && strcmp(o->format, "csv") == 0))
		return "--grace, --horizon and --from-lines need --time-pointer, which says where an event's time is, "
		       "or --format "
		       "csv";
	if (o->grace_us && o->horizon_us && o->grace_us >= o->horizon_us)
		return "--grace must be shorter than --horizon: together they leave out all events";
	return NULL;
}
