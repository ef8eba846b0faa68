/* dead_letters.c owns `wsonce dead-letters list`, `show`, `discard` and `reopen`, for events that could not be stored
 * and deliveries that failed. retry.c has `retry`. The statements are in sql/, one for each action on dead letters and
 * one for deliveries. */
#include "commands/dead_letters.h"
#include "commands/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "commands/redis_query.h"
#include "dead_letters_change.sql.h"
#include "dead_letters_list.sql.h"
#include "dead_letters_show.sql.h"
#include "deliveries_change.sql.h"
#include "deliveries_list.sql.h"
#include "deliveries_show.sql.h"
#include "sqlite_dead_letters_change.sql.h"
#include "sqlite_dead_letters_list.sql.h"
#include "sqlite_dead_letters_show.sql.h"
#include "unattended.sql.h"

#define PAGE 1000 /* rows changed in one transaction, so that others wait for milliseconds only */

/* What differs between letters and deliveries. Statements are for Postgres and SQLite. */
/* clang-format off */
static const struct family {
	const char *one;
	const char *list[2], *show[2], *change[2];
} families[2] = {
	{"dead letter", {SQL_DEAD_LETTERS_LIST, SQL_SQLITE_DEAD_LETTERS_LIST},
	 {SQL_DEAD_LETTERS_SHOW, SQL_SQLITE_DEAD_LETTERS_SHOW},
	 {SQL_DEAD_LETTERS_CHANGE, SQL_SQLITE_DEAD_LETTERS_CHANGE}},
	{"delivery", {SQL_DELIVERIES_LIST}, {SQL_DELIVERIES_SHOW}, {SQL_DELIVERIES_CHANGE}},
};
/* clang-format on */

/* --- list --- */

enum listed_column { OBJECT, TEXT };

static int list(const struct dead_letter_walk *w, const struct given *o)
{
	const struct family *family = &families[w->o->is_deliveries];
	AUTO_FREE char *ids = dead_letter_ids_array(&w->ids, 0, w->ids.count);
	AUTO_ROWS *rows = session_query(w->session, family->list[0], family->list[1], "snnns", ids, o->groups,
					o->examples, (int64_t)w->looked_at, w->config->consumer);

	if (!rows)
		return STATUS_FAILED;
	if (o->is_json)
		json_out_object(json_loads(session_text(rows, 0, OBJECT), 0, NULL));
	else
		json_out_text(session_text(rows, 0, TEXT), strlen(session_text(rows, 0, TEXT)), false);
	return STATUS_FINE;
}

int dead_letters_list(const struct invocation *in)
{
	struct dead_letter_walk walk = {.is_over = true};
	int status = dead_letter_walk_begin(&walk, in) ? STATUS_FAILED : list(&walk, in->options);

	dead_letter_walk_end(&walk);
	return status;
}

/* --- show --- */

enum shown_column { FIELDS, BODY, WHY_NOT };

/* Encodes bytes that cannot be a JSON string. */
static json_t *make_base64(const char *bytes, size_t len)
{
	AUTO_BYTES text = {NULL, 0, 0};

	base64_add(&text, bytes, len);
	return json_string(bytes_text(&text));
}

/* why_not: the body of a delivery is left out; else NULL. */
static void show_json(const json_t *fields, const char *body, size_t len, bool is_delivery, const char *why_not)
{
	struct json_out out;

	json_out_open(&out);
	json_out_members(&out, json_incref((json_t *)fields));
	if (is_delivery)
		json_out_member_text(&out, "payload", *body ? body : "null");
	else if (is_utf8(body, len))
		json_out_member(&out, "raw", json_stringn(body, len));
	else
		json_out_member(&out, "raw_base64", make_base64(body, len));
	if (why_not)
		json_out_member(&out, "payload_left_out", json_string(why_not));
	json_out_close(&out);
}

static void print_action(const json_t *action)
{
	const char *outcome = member_text(action, "outcome"), *note = member_text(action, "note");

	json_out_line("%-12s %s %s%s%s, by %s as %s%s%s", "action", member_text(action, "done_at"),
		      member_text(action, "action"), *outcome ? ": " : "", outcome, member_text(action, "db_user"),
		      member_text(action, "instance_id"), *note ? ": " : "", note);
}

/* Leaves out members that are empty, true or false. */
static void show_text(const json_t *fields, const char *body, size_t len, const char *why_not)
{
	json_t *value;
	size_t i;

	json_out_named(fields);
	json_array_foreach(json_object_get(fields, "actions"), i, value) print_action(value);
	if (json_is_false(json_object_get(fields, "is_whole")))
		puts("\nThe message was over --max-message: this is its head.");
	putchar('\n');
	if (why_not)
		printf("The payload is not printed: %s.", why_not);
	json_out_text(body, len, false);
	putchar('\n');
}

/* If no profile has read a letter, the pointers may find its type. */
static void find_type(const struct config *config, json_t *fields, const char *message, size_t len)
{
	struct envelope *reader = dead_letters_type_reader(config);
	struct slice type = dead_letters_type(reader, message, len);

	if (type.len && json_is_null(json_object_get(fields, "event_type")))
		json_object_set_new(fields, "event_type", json_stringn(type.at, type.len));
	envelope_free(reader);
}

static int show_row(const struct invocation *in, const struct pg_result *row, const char *body, size_t len)
{
	const struct given *o = in->options;
	bool is_delivery = o->is_deliveries;
	const char *why_not = session_is_null(row, 0, WHY_NOT) ? NULL : session_text(row, 0, WHY_NOT);
	json_auto_t *fields = json_loads(session_text(row, 0, FIELDS), 0, NULL);

	if (o->is_raw && why_not)
		return dispatch_fail("the payload of delivery %s is not printed: %s", in->words[0], why_not);
	if (o->is_raw)
		return fwrite(body, 1, len, stdout) == len ? STATUS_FINE : STATUS_FAILED;
	if (!fields)
		return dispatch_fail("the row cannot be shown");
	if (!is_delivery)
		find_type(in->config, fields, body, len);
	if (o->is_json)
		show_json(fields, body, len, is_delivery, why_not);
	else
		show_text(fields, body, len, why_not);
	return STATUS_FINE;
}

int dead_letters_show(const struct invocation *in)
{
	const struct given *o = in->options;
	const struct family *family = &families[o->is_deliveries];
	AUTO_ROWS *row = session_query(in->session, family->show[0], family->show[1], "s", in->words[0]);
	size_t len;
	AUTO_FREE char *body = row && session_count(row) ? session_bytes(row, 0, BODY, &len) : NULL;

	if (row && !body)
		dispatch_fail("no %s %s", family->one, in->words[0]);
	return body ? show_row(in, row, body, len) : STATUS_FAILED;
}

/* --- discard, reopen, and retry of deliveries --- */

struct change {
	struct dead_letter_walk walk;
	struct redis_query *marks; /* marks of discarded letters, which must open again; else NULL */
	const char *action, *done_as;
	int64_t done;
	int64_t started_ms;
};

void dead_letters_forget(struct redis_query **marks, const struct pg_result *rows, int column)
{
	AUTO_FREE struct slice *ids = memory_calloc(session_count(rows) + 1, sizeof(*ids));
	AUTO_FREE const char **consumers = memory_calloc(session_count(rows) + 1, sizeof(*consumers));
	size_t n = 0;

	for (size_t i = 0; i < session_count(rows); i++)
		if (!session_is_null(rows, i, column)) {
			ids[n].at = session_text(rows, i, column);
			ids[n].len = strlen(ids[n].at);
			consumers[n++] = session_text(rows, i, column + 1);
		}
	if (n && redis_query_forget(*marks, consumers, ids, n)) {
		dispatch_fail("cannot ask redis: %s; its dead marks are not deleted", redis_query_failure());
		redis_query_close(*marks);
		*marks = NULL;
	}
}

/* Changes the current page of ids, PAGE in each transaction. */
static int change_page(struct change *c)
{
	const struct dead_letter_walk *w = &c->walk;
	const char *const *sql = families[w->o->is_deliveries].change;

	for (size_t i = 0; i < w->ids.count && !interrupt_has_come(); i += PAGE) {
		AUTO_FREE char *ids = dead_letter_ids_array(&w->ids, i, PAGE);
		AUTO_ROWS *rows = session_query(w->session, sql[0], sql[1], "sssss", ids, w->o->note,
						w->config->instance_id, c->action, w->state);

		if (!rows)
			return -1;
		c->done += (int64_t)session_count(rows);
		if (c->marks)
			dead_letters_forget(&c->marks, rows, 1);
		progress_show("%s: %" PRId64 ", up to id %" PRId64, c->done_as, c->done, w->ids.at[i]);
	}
	return 0;
}

static int change_pages(struct change *c)
{
	int failed = change_page(c);

	while (!failed && !c->walk.is_over && !interrupt_has_come())
		failed = dead_letter_walk_next(&c->walk) || change_page(c) ? -1 : 0;
	progress_clear();
	return failed;
}

static void print_done(const struct change *c)
{
	if (c->walk.o->is_json)
		json_out_object(
			json_pack("{s:I, s:b}", c->done_as, (json_int_t)c->done, "interrupted", interrupt_has_come()));
	else
		printf("%s %" PRId64 "\n", c->done_as, c->done);
}

/* Deliveries that were retried wait if no running listener has their target. */
static void warn_of_unattended(const struct change *c)
{
	int64_t age_ms = clock_ms(CLOCK_MONOTONIC) - c->started_ms;
	AUTO_ROWS *rows = session_query(c->walk.session, SQL_UNATTENDED, NULL, "n", age_ms);

	if (rows && !session_is_null(rows, 0, 0))
		dispatch_fail("no running listener delivers to %s; these deliveries wait until one does",
			      session_text(rows, 0, 0));
}

static int change(struct change *c)
{
	int failed;

	if (strcmp(c->action, "discard") == 0 && !c->walk.o->is_deliveries && c->walk.ids.count)
		c->marks = redis_query_open(c->walk.config);
	failed = change_pages(c);
	redis_query_close(c->marks);
	print_done(c);
	if (failed)
		dispatch_fail("stopped before the end: those that are counted are %s, and perhaps %d more; run again "
			      "for the rest",
			      c->done_as, PAGE);
	else if (interrupt_has_come())
		dispatch_fail("interrupted; the count above is complete, run again for the rest");
	if (c->done && strcmp(c->action, "retry") == 0 && !failed)
		warn_of_unattended(c);
	return failed || interrupt_has_come() ? STATUS_FAILED : STATUS_FINE;
}

int dead_letters_change(const struct invocation *in)
{
	struct change c = {.action = dead_letters_action(in), .started_ms = clock_ms(CLOCK_MONOTONIC)};
	int status = STATUS_FAILED;

	interrupt_watch();
	c.done_as = strcmp(c.action, "retry") == 0     ? "retried"
		    : strcmp(c.action, "discard") == 0 ? "discarded"
						       : "reopened";
	if (dead_letter_walk_begin(&c.walk, in) == 0)
		status = change(&c);
	dead_letter_walk_end(&c.walk);
	return c.walk.missed ? STATUS_FAILED : status;
}
