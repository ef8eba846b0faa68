/* export.c owns `wsonce export`: it prints rows, or open dead letters, as lines that exported.c reads. The database
 * puts the ids of all rows in order first; then each page is read by its ids, and held by no transaction. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/timestamp.h"
#include "commands/table.h"
#include "commands/exported.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "commands/session.h"
#include "export_letters.sql.h"
#include "export_order.sql.h"
#include "export_rows.sql.h"
#include "export_settled.sql.h"
#include "export_writers.sql.h"
#include "sqlite_export_letters.sql.h"
#include "sqlite_export_order.sql.h"
#include "sqlite_export_rows.sql.h"
#include "sqlite_export_settled.sql.h"

#define PAGE_ROWS  2000
#define PAGE_BYTES (1 << 20) /* bytes of stored payloads in a page */
#define HELD_BYTES (4 << 20) /* bytes of lines; beyond, they are written before their page is complete */
#define LOOK_MS    50

/* The id of a row that is to be printed, and about how many bytes it has. */
struct place {
	int64_t id;
	int64_t bytes;
};

struct export
{
	const struct given *o;
	struct session *session;
	char since[TIMESTAMP_SIZE], until[TIMESTAMP_SIZE]; /* span of the rows read */
	char after[24];                                    /* id, at the time since */
	char position[TIMESTAMP_SIZE + 24];                /* position of the last line written */
	struct place places[PAGE_ROWS];                    /* the next page */
	char next[60];                                     /* statement that reads the next page */
	int place_count;
	struct bytes lines; /* not yet written */
	uint64_t written, total, left_out;
	int64_t start_ms;
	bool is_broken; /* standard output failed */
	bool is_short;  /* until was lowered: rows up to --until may still come */
};

/* --- the position --- */

/* Reads TIME/ID, or the ID of a letter. */
static bool read_position(struct export *e, const char *text)
{
	const char *slash = strrchr(text, '/'), *id = slash ? slash + 1 : text;
	size_t digits = strspn(id, "0123456789");
	int64_t us;

	if (!digits || id[digits] || digits > 18 || !slash != e->o->is_letters ||
	    (slash && !timestamp_parse(text, (size_t)(slash - text), TIMESTAMP_RFC3339, &us)))
		return false;
	snprintf(e->after, sizeof(e->after), "%s", id);
	if (slash)
		timestamp_print_to(us, 6, e->since);
	return true;
}

static void set_position(struct export *e, const char *time, size_t len, int64_t id)
{
	snprintf(e->position, sizeof(e->position), "%.*s%s%" PRId64, (int)len, time, len ? "/" : "", id);
}

/* Takes the position from a line, whose first time is the one by which rows are ordered. */
static void note_position(struct export *e, const char *line)
{
	const char *id = strchr(line, ':') + 1, *time = strstr(line, "_at\":\"");

	if (e->o->is_letters || !time)
		set_position(e, "", 0, strtoll(id, NULL, 10));
	else
		set_position(e, time + 6, strcspn(time + 6, "\""), strtoll(id, NULL, 10));
}

/* --- output --- */

static uint64_t count_lines(const char *at, size_t len)
{
	uint64_t n = 0;

	for (const char *end = at + len; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		n++;
	return n;
}

/* Returns how many bytes were written; errno says why it is fewer. */
static size_t write_bytes(const char *at, size_t len)
{
	struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(STDOUT_FILENO, at + done, len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			poll(&out, 1, -1);
		else if (errno != EINTR)
			break;
	}
	return done;
}

/* Cuts off an incomplete last line, which a full disk leaves. Returns false if that fails. */
static bool cut_file(size_t part)
{
	off_t end = lseek(STDOUT_FILENO, 0, SEEK_CUR);
	struct stat st;

	return fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == end &&
	       ftruncate(STDOUT_FILENO, end - (off_t)part) == 0;
}

static void fail_output(struct export *e, size_t part, int error)
{
	bool is_cut = part && !cut_file(part);

	e->is_broken = true;
	if (error == EPIPE)
		dispatch_fail("standard output was closed");
	else
		dispatch_fail("cannot write to standard output: %s%s", strerror(error),
			      is_cut ? "; its last line is cut off" : "");
}

/* Writes the lines, and moves the position past the last one that was written as a whole. */
static void write_lines(struct export *e)
{
	size_t len = e->lines.len, done = len, whole;
	const char *at = bytes_text(&e->lines), *last;
	int error;

	if (!len || e->is_broken)
		return;
	if (isatty(STDOUT_FILENO)) {
		progress_clear();
		json_out_safe(at);
		fflush(stdout);
	} else {
		done = write_bytes(at, len);
	}
	error = errno;
	last = memrchr(at, '\n', done);
	whole = last ? (size_t)(last + 1 - at) : 0;
	if (last) {
		last = memrchr(at, '\n', whole - 1);
		note_position(e, last ? last + 1 : at);
	}
	e->written += count_lines(at, whole);
	e->lines.len = 0;
	if (done < len)
		fail_output(e, done - whole, error);
}

static void take_line(void *arg, const char *const *cells, int n)
{
	struct export *e = arg;

	(void)n;
	if (!cells[1]) {
		dispatch_fail("row %s is left out: its numbers have more than 16 MiB of digits", cells[0]);
		e->left_out++;
		return;
	}
	snprintf(e->after, sizeof(e->after), "%s", cells[0]);
	bytes_add_text(&e->lines, cells[1]);
	bytes_add_byte(&e->lines, '\n');
	e->place_count += e->o->is_letters;
	if (e->lines.len > HELD_BYTES)
		write_lines(e);
}

static void show_progress(const struct export *e)
{
	int64_t ms = clock_ms(CLOCK_MONOTONIC) - e->start_ms;
	double rate = ms > 0 ? (double)e->written * 1000 / (double)ms : 0;
	int64_t left_s = rate > 0 && e->total > e->written ? (int64_t)((double)(e->total - e->written) / rate) : 0;

	if (e->total)
		progress_show("%3.0f %%, %" PRIu64 " lines, %.0f/s, %" PRId64 ":%02" PRId64 " left",
			      100 * (double)(e->written + e->left_out) / (double)e->total, e->written, rate,
			      left_s / 60, left_s % 60);
	else
		progress_show("%" PRIu64 " lines, %.0f/s", e->written, rate);
}

/* --- what can no longer change --- */

/* Lowers until to the time before which no listener will store another row. */
static int find_end(struct export *e)
{
	bool is_file = session_is_file(e->session);
	char now[24], at[TIMESTAMP_SIZE];
	AUTO_ROWS *rows = NULL;
	int64_t us;

	snprintf(now, sizeof(now), "%" PRId64, clock_us(CLOCK_REALTIME));
	rows = session_query(e->session, SQL_EXPORT_SETTLED, SQL_SQLITE_EXPORT_SETTLED, is_file ? "s" : "", now);
	if (!rows)
		return -1;
	us = session_number(rows, 0, 0);
	if (e->o->until_us && e->o->until_us <= us)
		return 0;
	timestamp_print_to(us, 6, e->until);
	e->is_short = e->o->until_us;
	if (e->is_short && !session_is_null(rows, 0, 1))
		dispatch_fail(
			"the listener %s may still store rows received after %s: try again in a minute, or give --live",
			session_text(rows, 0, 1), timestamp_print_to(us, 3, at));
	else if (e->is_short)
		dispatch_fail("--until is after %s, up to which all is stored", timestamp_print_to(us, 3, at));
	return 0;
}

/* Waits for transactions in Postgres that may have written to the table and are not committed. */
static int wait_for_writers(struct export *e, const char *table, int64_t most_ms)
{
	int64_t end_ms = clock_ms(CLOCK_MONOTONIC) + most_ms;
	AUTO_FREE char *writers = NULL;

	while (!session_is_file(e->session)) {
		AUTO_ROWS *rows = session_query(e->session, SQL_EXPORT_WRITERS, NULL, "sss", writers, e->until, table);

		if (!rows)
			return -1;
		if (session_is_null(rows, 0, 0))
			return 0;
		if (clock_ms(CLOCK_MONOTONIC) > end_ms)
			return dispatch_fail("%s has written to %s and is not committed: wait until it ends%s",
					     session_text(rows, 0, 1), table,
					     e->o->is_letters ? "" : ", or give --live");
		free(writers);
		writers = memory_strdup(session_text(rows, 0, 0));
		poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

/* --- rows --- */

/* As in postgres/connection.h, postgres_find_by_key(): statistics may date from a time when the table was small. */
static const char sql_by_key[] = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off";
static const char lite_next[] = "SELECT id, size, (SELECT max(rowid) FROM wsonce_order) FROM wsonce_order"
				" WHERE rowid > CAST(?1 AS INTEGER) ORDER BY rowid LIMIT 2000";

/* Behind a pooler in transaction mode, the session of a page may have the cursor of another export. */
static int put_in_order(struct export *e)
{
	const char *const values[] = {e->since, e->after, e->until, e->o->source, e->o->type};
	struct session *s = e->session;
	AUTO_FREE char *order = NULL;

	progress_show("putting the rows in order");
	if (session_is_file(s))
		return session_each_row(s, NULL, SQL_SQLITE_EXPORT_ORDER, 5, values, take_line, e);
	snprintf(e->next, sizeof(e->next), "FETCH 2000 FROM wsonce_order_%d_%u", getpid(), backoff_draw());
	order = memory_printf("DECLARE %s NO SCROLL CURSOR WITH HOLD FOR %s", strstr(e->next, "wsonce"),
			      SQL_EXPORT_ORDER);
	return session_run_alone(s, "BEGIN") ||
			       session_run(s, order, NULL, "sssss", values[0], values[1], values[2], values[3],
					   values[4]) ||
			       session_run_alone(s, "COMMIT") || session_run_alone(s, sql_by_key)
		       ? -1
		       : 0;
}

static void take_place(void *arg, const char *const *cells, int n)
{
	struct export *e = arg;

	(void)n;
	e->places[e->place_count++] = (struct place){strtoll(cells[0], NULL, 10), strtoll(cells[1], NULL, 10)};
	e->total = strtoull(cells[2], NULL, 10);
}

/* Prints the rows of some places, beginning with number first. Returns how many, or -1. */
static int print_rows(struct export *e, int first)
{
	AUTO_BYTES ids = {NULL, 0, 0};
	const char *array;
	int64_t bytes = 0;
	int i = first, failed;

	for (; i < e->place_count && bytes < PAGE_BYTES; bytes += e->places[i++].bytes) {
		char id[24];

		snprintf(id, sizeof(id), "%c%" PRId64, i == first ? '{' : ',', e->places[i].id);
		bytes_add_text(&ids, id);
	}
	bytes_add_byte(&ids, '}');
	array = bytes_text(&ids);
	failed = session_each_row(e->session, SQL_EXPORT_ROWS, SQL_SQLITE_EXPORT_ROWS, 1, &array, take_line, e);
	write_lines(e);
	show_progress(e);
	return failed ? -1 : i - first;
}

static bool may_go_on(const struct export *e)
{
	return !e->is_broken && !interrupt_has_come();
}

/* Returns 1 after the last row; 0 if it ended earlier, or -1 if the database failed. */
static int print_pages(struct export *e)
{
	uint64_t seen = 0;
	int failed = 0;

	while (!failed && may_go_on(e)) {
		char after[24];
		const char *const values[] = {after};

		snprintf(after, sizeof(after), "%" PRIu64, seen);
		e->place_count = 0;
		failed = session_each_row(e->session, e->next, lite_next, session_is_file(e->session), values,
					  take_place, e);
		if (!failed && !e->place_count)
			return 1;
		for (int i = 0, n; !failed && i < e->place_count && may_go_on(e); i += n) {
			n = print_rows(e, i);
			failed = n < 0 ? -1 : 0;
		}
		seen += (uint64_t)e->place_count;
	}
	return failed;
}

static int export_rows(struct export *e, int64_t timeout_ms)
{
	int ended;

	if ((!e->o->is_live && (find_end(e) || wait_for_writers(e, "events", timeout_ms))) || put_in_order(e))
		return -1;
	interrupt_watch();
	e->start_ms = clock_ms(CLOCK_MONOTONIC);
	ended = print_pages(e);
	if (ended == 1 && !e->is_broken && !e->o->is_live && strcmp(e->since, e->until) < 0)
		set_position(e, e->until, strlen(e->until), 0);
	return ended;
}

/* --- dead letters --- */

/* A letter may be committed after one with a larger id. */
static int export_letters(struct export *e, const char *consumer, int64_t timeout_ms)
{
	static const char sql_last[] = "SELECT coalesce(pg_catalog.max(id), 0) FROM :schema.dead_letters";
	AUTO_ROWS *last = session_query(e->session, sql_last, sql_last, "");
	int failed = !last || wait_for_writers(e, "dead_letters", timeout_ms) ? -1 : 0;
	const char *most = failed ? NULL : session_text(last, 0, 0);
	const char *const values[] = {consumer, e->after, e->since, e->until, e->o->source, e->o->type, most};

	interrupt_watch();
	e->start_ms = clock_ms(CLOCK_MONOTONIC);
	while (!failed && may_go_on(e)) {
		e->place_count = 0;
		failed = session_each_row(e->session, SQL_EXPORT_LETTERS, SQL_SQLITE_EXPORT_LETTERS, 7, values,
					  take_line, e);
		write_lines(e);
		show_progress(e);
		if (!failed && !e->place_count)
			return 1;
	}
	return failed;
}

/* --- the command --- */

static int print_end(const struct export *e, int ended)
{
	progress_clear();
	if (ended != 1 && interrupt_has_come())
		dispatch_fail("interrupted");
	fprintf(stderr, "wsonce: exported %" PRIu64 " lines; go on with --after %s\n", e->written, e->position);
	return ended == 1 && !e->is_short && !e->left_out && !e->is_broken ? STATUS_FINE : STATUS_FAILED;
}

/* Without row_security, a policy that would hide rows is an error, as for pg_dump. */
static const char sql_begin[] =
	"SELECT pg_catalog.set_config(name, CASE name WHEN 'client_connection_check_interval' THEN '1s' ELSE '0' END, "
	"false) FROM pg_catalog.pg_settings WHERE name IN ('client_connection_check_interval', 'statement_timeout', "
	"'idle_session_timeout', 'row_security')";

static void begin(struct export *e)
{
	timestamp_print_to(e->o->since_us, 6, e->since);
	snprintf(e->after, sizeof(e->after), "0");
	if (e->o->until_us)
		timestamp_print_to(e->o->until_us, 6, e->until);
	else
		snprintf(e->until, sizeof(e->until), "9999-12-31T23:59:59.999999Z");
	if (e->o->after)
		read_position(e, e->o->after);
	set_position(e, e->since, e->o->is_letters ? 0 : strlen(e->since), strtoll(e->after, NULL, 10));
}

int export_command(const struct invocation *in)
{
	struct export e = {.o = in->options, .session = in->session};
	int ended;

	begin(&e);
	if (!session_is_file(e.session) && session_run_alone(e.session, sql_begin))
		return STATUS_FAILED;
	ended = e.o->is_letters ? export_letters(&e, in->config->consumer, in->config->postgres_timeout_ms)
				: export_rows(&e, in->config->postgres_timeout_ms);
	bytes_free(&e.lines);
	return print_end(&e, ended);
}

const char *export_check(const struct invocation *in)
{
	const struct given *o = in->options;
	struct export e = {.o = o};

	if (o->since_us && o->after && !o->is_letters)
		return "--since and --after exclude each other: --after has a time, too";
	if (o->is_live && o->is_letters)
		return "--live is for rows: dead letters are printed as they are";
	if (o->after && !read_position(&e, o->after))
		return o->is_letters ? "--after must be the id of a dead letter: 42"
				     : "--after must be a position such as 2026-11-21T08:30:00.123456Z/42";
	return NULL;
}
