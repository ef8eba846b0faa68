/* dead_letters.c owns `wsonce dead-letters list`, `show`, `discard` and `reopen`, for events that could not be stored
 * and deliveries that failed, and the filter by which they find ids. retry.c has `retry`. */
#include "commands/dead_letters.h"
#include "commands/table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/text.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "commands/redis_query.h"
#include "dead_letters_change.sql.h"
#include "dead_letters_find.sql.h"
#include "dead_letters_list.sql.h"
#include "dead_letters_show.sql.h"
#include "deliveries_acted.sql.h"
#include "deliveries_change.sql.h"
#include "deliveries_find.sql.h"
#include "deliveries_list.sql.h"
#include "deliveries_show.sql.h"
#include "sqlite_dead_letters_change.sql.h"
#include "sqlite_dead_letters_find.sql.h"
#include "sqlite_dead_letters_list.sql.h"
#include "sqlite_dead_letters_show.sql.h"
#include "unattended.sql.h"

#define PAGE          1000   /* rows changed in one transaction, so that others wait for milliseconds only */
#define IDS_PAGE      100000 /* ids in a page */
#define MESSAGES      1000   /* ids in a page with messages */
#define MESSAGE_BYTES "8388608"

/* The ids that a command finds, the lowest first. The planner assumes that an unknown LIMIT is small (see lease.sql),
 * so it reads no more than it must. */
#define IDS(find) "SELECT id, NULL, NULL FROM (" find ") AS found ORDER BY id LIMIT $8::bigint"
/* The same with messages of about MESSAGE_BYTES in all. */
#define WITH_MESSAGES(in, find, most) \
	"SELECT id, event_type, raw FROM (SELECT *, " in "sum(" in "length(raw)) OVER (ORDER BY id) - " in \
	"length(raw) AS before FROM " \
	"(" find " ORDER BY id LIMIT " most ") AS found) AS page WHERE before < " MESSAGE_BYTES " ORDER BY id"
/* Counts the newest ids, up to the wanted number, and finds the lowest of them. With a bound of time, the sum keeps the
 * planner from reading all ids, newest first, to find the few of that time. */
#define NEWEST(with, find) \
	"WITH " with \
	"wanted AS MATERIALIZED (SELECT 1 WHERE pg_catalog.set_config('wsonce.wanted', $8::text, true) <> '')" \
	" SELECT pg_catalog.count(*), pg_catalog.min(id) FROM wanted, LATERAL (SELECT id FROM (" find ") AS found" \
	" ORDER BY CASE WHEN $1::bigint = 0 AND $2::bigint = 0 THEN id ELSE id + 0 END DESC LIMIT" \
	" coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint) AS newest"
/* For deliveries: in the order in which the ids are read. */
#define ACTED(order)   "acted AS (" SQL_DELIVERIES_ACTED " ORDER BY delivery_id" order ")"
#define LITE_IDS(find) "SELECT id, NULL, NULL FROM (" find ") ORDER BY id LIMIT CAST(?8 AS INTEGER)"
#define LITE_NEWEST(find) \
	"SELECT count(*), min(id) FROM (SELECT id FROM (" find ") ORDER BY id DESC LIMIT CAST(?8 AS INTEGER))"

/* What differs between letters and deliveries. Statements are for Postgres and SQLite. */
/* clang-format off */
static const struct family {
	const char *one;
	const char *last[2]; /* the highest id */
	const char *ids[2], *with_messages[2], *newest[2];
	const char *list[2], *show[2], *change[2];
} families[2] = {
	{"dead letter",
	 {"SELECT pg_catalog.max(id) FROM :schema.dead_letters", "SELECT max(id) FROM dead_letters"},
	 {IDS(SQL_DEAD_LETTERS_FIND), LITE_IDS(SQL_SQLITE_DEAD_LETTERS_FIND)},
	 {WITH_MESSAGES("pg_catalog.", SQL_DEAD_LETTERS_FIND, "$8::bigint"),
	  WITH_MESSAGES("", SQL_SQLITE_DEAD_LETTERS_FIND, "CAST(?8 AS INTEGER)")},
	 {NEWEST("", SQL_DEAD_LETTERS_FIND), LITE_NEWEST(SQL_SQLITE_DEAD_LETTERS_FIND)},
	 {SQL_DEAD_LETTERS_LIST, SQL_SQLITE_DEAD_LETTERS_LIST},
	 {SQL_DEAD_LETTERS_SHOW, SQL_SQLITE_DEAD_LETTERS_SHOW},
	 {SQL_DEAD_LETTERS_CHANGE, SQL_SQLITE_DEAD_LETTERS_CHANGE}},
	{"delivery",
	 {"SELECT pg_catalog.max(id) FROM :schema.outbox"},
	 {"WITH " ACTED("") IDS(SQL_DELIVERIES_FIND)},
	 {NULL},
	 {NEWEST(ACTED(" DESC") ", ", SQL_DELIVERIES_FIND)},
	 {SQL_DELIVERIES_LIST}, {SQL_DELIVERIES_SHOW}, {SQL_DELIVERIES_CHANGE}},
};
/* clang-format on */

static const struct family *family_of(const struct given *o)
{
	return &families[o->is_deliveries];
}

/* --- options --- */

static const char *action_of(const struct invocation *in)
{
	const char *verb = strchr(in->name, ' ') + 1;

	return strcmp(verb, "list") != 0 && strcmp(verb, "show") != 0 ? verb : NULL;
}

static bool is_filtered(const struct given *o)
{
	return o->since_us || o->until_us || o->type || o->reason || o->target;
}

static bool is_id(const char *word)
{
	size_t n = strspn(word, "0123456789");

	return n && !word[n] && n < 19;
}

static const char *check_ids(const struct invocation *in)
{
	static _Thread_local char sentence[160];
	const struct given *o = in->options;
	const char *wrong = o->id && !is_id(o->id) ? o->id : NULL;

	for (int i = 0; i < in->word_count && !wrong; i++)
		wrong = is_id(in->words[i]) ? NULL : in->words[i];
	if (!wrong)
		return NULL;
	snprintf(sentence, sizeof(sentence), "\"%.80s\" is not the id of a dead %s, which is a number", wrong,
		 o->is_deliveries ? "delivery" : "letter");
	return sentence;
}

static const char *check_choice(const struct invocation *in)
{
	static _Thread_local char sentence[80];
	const struct given *o = in->options;
	bool is_chosen = o->is_all || in->word_count || is_filtered(o);

	if (!o->raw_file != !o->id)
		return "--raw-file FILE and --id ID go together: one of them is missing";
	if (o->id && o->is_deliveries)
		return "--raw-file and --id do not go with --deliveries, which sends the stored payload";
	if (o->id && is_chosen)
		return "--id chooses one letter; drop the other ids and filters";
	if (o->is_all && in->word_count)
		return "--all and ids exclude each other: give either";
	snprintf(sentence, sizeof(sentence), "nothing chosen to %s: give ids, a filter, or --all", action_of(in));
	return o->id || is_chosen ? NULL : sentence;
}

const char *dead_letters_check(const struct invocation *in)
{
	const struct given *o = in->options;
	const char *wrong = NULL;

	if (o->is_pending && !(o->is_deliveries && o->target))
		wrong = "--pending goes with --deliveries and --target";
	else if (action_of(in))
		wrong = check_choice(in);
	if (wrong)
		return wrong;
	if (o->is_raw && o->is_json)
		return "--raw and --json do not go together";
	if (o->target && !o->is_deliveries)
		return "--target goes with --deliveries";
	return check_ids(in);
}

/* --- ids --- */

static void add_id(struct dead_letter_ids *ids, int64_t id)
{
	if (ids->count == ids->size) {
		ids->size = ids->size ? ids->size * 2 : 256;
		ids->at = memory_realloc(ids->at, ids->size * sizeof(*ids->at));
	}
	ids->at[ids->count++] = id;
}

char *dead_letter_ids_array(const struct dead_letter_ids *ids, size_t first, size_t most)
{
	size_t end = ids->count - first < most ? ids->count : first + most;
	char *text = memory_alloc((end - first) * 21 + 3), *at = text;

	*at++ = '{';
	for (size_t i = first; i < end; i++)
		at += sprintf(at, "%s%" PRId64, i == first ? "" : ",", ids->at[i]);
	memcpy(at, "}", 2);
	return text;
}

static char *words_array(char **words, int count)
{
	struct dead_letter_ids given = {NULL, 0, 0};
	char *text;

	for (int i = 0; i < count; i++)
		add_id(&given, strtoll(words[i], NULL, 10));
	text = dead_letter_ids_array(&given, 0, given.count);
	free(given.at);
	return text;
}

/* --- the type of a letter, which is in its message --- */

static struct envelope *type_reader(const struct config *config)
{
	char *pointer = config->type_pointer;
	const struct config_list pointers = {&pointer, 1};

	/* The type is read as if it were the id, the only member that must be there. */
	return envelope_new(&pointers, pointer, "");
}

static struct slice type_of(struct envelope *reader, const char *message, size_t len)
{
	struct envelope_view view;

	return envelope_read(reader, message, len, &view) ? (struct slice){"", 0} : view.id;
}

static bool has_type(const struct dead_letter_walk *w, const struct pg_result *rows, size_t row)
{
	const char *type = w->o->type;
	AUTO_FREE char *raw = NULL;
	struct slice found;
	size_t len;

	if (!session_is_null(rows, row, 1)) /* the statement has already compared the type */
		return true;
	raw = session_bytes(rows, row, 2, &len);
	found = type_of(w->reader, raw, len);
	return found.len == strlen(type) && memcmp(found.at, type, found.len) == 0;
}

/* --- pages --- */

/* With these, a page is read in the order of an index, whatever the statistics say. */
static const char settings[] = SESSION_SETTINGS ", pg_catalog.set_config('enable_seqscan', 'off', true)";

static struct pg_result *ask(const struct dead_letter_walk *w, const char *const sql[2], const char *type,
			     int64_t limit)
{
	const struct given *f = w->o;

	return session_query(w->session, sql[0], sql[1], "nnsssssnnn", f->since_us, f->until_us,
			     f->reason ? f->reason : "", w->state, w->words,
			     f->is_deliveries ? f->target : w->config->consumer, type, limit, w->after, w->end);
}

static int read_page(struct dead_letter_walk *w)
{
	const struct family *s = family_of(w->o);
	int64_t left = w->o->limit ? w->o->limit - w->found : INT64_MAX, most = left < IDS_PAGE ? left : IDS_PAGE;
	AUTO_ROWS *rows = ask(w, w->reader ? s->with_messages : s->ids, w->o->type, w->reader ? MESSAGES : most);
	size_t count = rows ? session_count(rows) : 0;

	w->is_over = !count || (!w->reader && (int64_t)count < most);
	for (size_t i = 0; i < count && left; i++) {
		w->after = session_number(rows, i, 0);
		if (w->reader && !has_type(w, rows, i))
			continue;
		add_id(&w->ids, w->after);
		w->found++;
		left--;
	}
	w->is_over = w->is_over || !left;
	return rows ? 0 : -1;
}

int dead_letter_walk_next(struct dead_letter_walk *w)
{
	w->ids.count = 0;
	while (!w->is_over) {
		if (read_page(w))
			return -1;
		if (!w->is_one_page)
			break;
	}
	return 0;
}

/* Skips all that are not among the newest, of any type in the case of dead letters. */
static int begin_at_newest(struct dead_letter_walk *w, const struct family *s)
{
	const struct given *f = w->o;
	AUTO_ROWS *rows = ask(w, s->newest, f->is_deliveries ? f->type : NULL, f->newest + 1);

	if (rows && session_number(rows, 0, 0) > f->newest) {
		w->looked_at = (size_t)f->newest;
		w->after = session_number(rows, 0, 1);
	}
	return rows ? 0 : -1;
}

void dead_letter_walk_end(struct dead_letter_walk *w)
{
	envelope_free(w->reader);
	free(w->words);
	free(w->ids.at);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void tell_missed(struct dead_letter_walk *w, char **words, int count)
{
	const char *state = w->state;
	bool is_deliveries = w->o->is_deliveries;

	for (int i = 0; i < count; i++) {
		int64_t id = strtoll(words[i], NULL, 10);

		if (w->ids.count && bsearch(&id, w->ids.at, w->ids.count, sizeof(id), compare_ids))
			continue;
		dispatch_fail(is_deliveries ? "%s: there is no such %s delivery"
					    : "%s: this fleet (see --consumer) has no such %s dead letter",
			      words[i], is_deliveries && strcmp(state, "open") == 0 ? "dead" : state);
		w->missed++;
	}
}

int dead_letter_walk_begin(struct dead_letter_walk *w, const struct invocation *in)
{
	const struct given *o = in->options;
	const struct family *family = family_of(o);
	AUTO_ROWS *rows = session_query(in->session, family->last[0], family->last[1], "");
	const char *action = action_of(in);
	char *id = (char *)o->id, **words = id ? &id : in->words;
	int count = id ? 1 : in->word_count;

	*w = (struct dead_letter_walk){
		.session = in->session, .config = in->config, .o = o, .state = o->state, .after = -1};
	if (!rows)
		return -1;
	session_configure(in->session, settings, 0);
	w->end = session_number(rows, 0, 0);
	if (o->is_pending || id)
		w->state = id ? "all" : "pending";
	else if (action && strcmp(action, "reopen") == 0)
		w->state = "resolved";
	if (count)
		w->words = words_array(words, count);
	w->is_one_page = count || !action;
	if (o->type && !o->is_deliveries)
		w->reader = type_reader(in->config);
	if ((o->newest && begin_at_newest(w, family)) || dead_letter_walk_next(w))
		return -1;
	tell_missed(w, words, count);
	return 0;
}

/* --- list --- */

enum listed_column { OBJECT, TEXT };

static int list(const struct dead_letter_walk *w, const struct given *o)
{
	const struct family *family = family_of(o);
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

/* why_not: why the body of a delivery is left out; else NULL. */
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
	struct envelope *reader = type_reader(config);
	struct slice type = type_of(reader, message, len);

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
	const struct family *family = family_of(o);
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
	int64_t first; /* id of its first row in delivery_actions; 0: none */
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
	const char *const *sql = family_of(w->o)->change;

	for (size_t i = 0; i < w->ids.count && !interrupt_has_come(); i += PAGE) {
		AUTO_FREE char *ids = dead_letter_ids_array(&w->ids, i, PAGE);
		AUTO_ROWS *rows = session_query(w->session, sql[0], sql[1], "sssss", ids, w->o->note,
						w->config->instance_id, c->action, w->state);

		if (!rows)
			return -1;
		c->done += (int64_t)session_count(rows);
		if (w->o->is_deliveries && !c->first && session_count(rows))
			c->first = session_number(rows, 0, 1);
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

/* Deliveries that were retried wait if no running listener has their target, or while it is paused. */
static void warn_of_unattended(const struct change *c)
{
	AUTO_ROWS *rows = session_query(c->walk.session, SQL_UNATTENDED, NULL, "n", c->first);

	if (rows && !session_is_null(rows, 0, 0))
		dispatch_fail("no running listener delivers to %s; these deliveries wait until one does",
			      session_text(rows, 0, 0));
	if (rows && !session_is_null(rows, 0, 1))
		dispatch_fail("paused: %s; these wait until wsonce webhooks resume", session_text(rows, 0, 1));
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
	if (c->first && strcmp(c->action, "retry") == 0 && !failed)
		warn_of_unattended(c);
	return failed || interrupt_has_come() ? STATUS_FAILED : STATUS_FINE;
}

int dead_letters_change(const struct invocation *in)
{
	struct change c = {.action = action_of(in)};
	int status = STATUS_FAILED;

	assert(c.action);
	interrupt_watch();
	c.done_as = strcmp(c.action, "retry") == 0     ? "retried"
		    : strcmp(c.action, "discard") == 0 ? "discarded"
						       : "reopened";
	if (dead_letter_walk_begin(&c.walk, in) == 0)
		status = change(&c);
	dead_letter_walk_end(&c.walk);
	return c.walk.missed ? STATUS_FAILED : status;
}
