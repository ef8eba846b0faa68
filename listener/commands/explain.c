/* explain.c owns `wsonce explain`: what Postgres and Redis know of one event, in order of time. Each table is asked by
 * itself, so that a right that is missing hides one part and not the rest. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "commands/dispatch.h"
#include "commands/json_out.h"
#include "commands/redis_query.h"
#include "commands/session.h"
#include "explain.sql.h"
#include "road/mark.h"

struct explain_options {
	bool is_json;
};

static const struct option explain_options[] = {
	{"json", OPTION_SWITCH, offsetof(struct explain_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
};

/* One thing that happened. */
struct moment {
	int64_t us;   /* since 1970 */
	size_t place; /* of its finding: of two at the same time, the first found comes first */
	char *what;
	json_t *fields;
};

struct history {
	struct moment *moments;
	size_t count;
	json_t *unread; /* what could not be asked, and why */
	bool is_stored;
	bool has_letter;
};

/* --- what is known --- */

static void add_moment(struct history *h, int64_t us, const char *what, json_t *fields)
{
	h->moments = memory_realloc(h->moments, (h->count + 1) * sizeof(*h->moments));
	h->moments[h->count] = (struct moment){us, h->count, memory_strdup(what), fields};
	h->count++;
}

static void add_unread(struct history *h, const char *where, const char *why)
{
	json_array_append_new(h->unread, json_pack("{s:s, s:o}", "where", where, "why", json_out_string(why)));
}

/* Rows of one table: microseconds since 1970, what happened, and a JSON object. */
static void take_rows(struct history *h, const char *table, const struct pg_result *rows)
{
	for (size_t i = 0; i < session_count(rows); i++) {
		json_t *fields = json_loads(session_text(rows, i, 2), 0, NULL);

		add_moment(h, session_number(rows, i, 0), session_text(rows, i, 1), fields ? fields : json_object());
	}
	h->is_stored |= strcmp(table, "events") == 0 && session_count(rows);
	h->has_letter |= strcmp(table, "dead_letters") == 0 && session_count(rows);
}

/* The parts of sql/queries/explain.sql: each begins with a line "-- table NAME". */
static void ask_postgres(struct history *h, struct session *s, const char *id)
{
	static const char head[] = "-- table ";
	const char *at = strstr(SQL_EXPLAIN, head);

	while (at) {
		const char *name = at + sizeof(head) - 1, *end = strstr(name, head);
		size_t name_len = strcspn(name, "\n");
		char *table = memory_strndup(name, name_len), why[600];
		char *sql = memory_strndup(name + name_len,
					   end ? (size_t)(end - name) - name_len : strlen(name + name_len));
		struct pg_result *rows = session_try(s, sql, 1, &id, why, sizeof(why));

		if (rows)
			take_rows(h, table, rows);
		else
			add_unread(h, table, why);
		session_drop(rows);
		free(table);
		free(sql);
		at = end;
	}
}

/* Of a claim, instance.nonce@ms. */
static void take_claim(struct history *h, const char *value, json_int_t ttl_ms)
{
	const char *at = strrchr(value, '@'), *end = at ? at : value + strlen(value);
	char *owner = memory_strndup(value, (size_t)(end - value));

	add_moment(h, at ? strtoll(at + 1, NULL, 10) * 1000 : 0, "claimed",
		   json_pack("{s:o, s:I}", "listener", json_out_string(owner), "expires_in_ms", ttl_ms));
	free(owner);
}

static void take_mark(struct history *h, const char *value, const struct mark *mark, json_int_t ttl_ms)
{
	json_t *fields = json_pack("{s:I}", "expires_in_ms", ttl_ms);
	char epoch[12];

	snprintf(epoch, sizeof(epoch), "%08" PRIx32, mark->epoch);
	json_object_set_new(fields, "epoch", json_string(epoch));
	add_moment(h, strtoll(value + sizeof(MARK_DONE_HEAD) - 1, NULL, 10) * 1000,
		   mark->is_dead ? "marked dead" : "marked done", fields);
}

static void ask_redis(struct history *h, const struct config *config, struct slice id)
{
	struct redis_query *q;
	struct mark mark;
	int64_t ttl_ms;
	char value[600];

	if (strcmp(config->redis, "none") == 0) {
		add_unread(h, "redis", "--redis none: claims and marks are not asked for");
		return;
	}
	q = redis_query_open(config);
	if (!q || redis_query_read(q, id, value, sizeof(value), &ttl_ms))
		add_unread(h, "redis", q ? "it does not say" : "it cannot be reached");
	else if (*value && mark_read(&mark, value, strlen(value)))
		take_mark(h, value, &mark, ttl_ms);
	else if (*value)
		take_claim(h, value, ttl_ms);
	redis_query_close(q);
}

static int compare_moments(const void *a, const void *b)
{
	const struct moment *left = a, *right = b;

	if (left->us != right->us)
		return left->us < right->us ? -1 : 1;
	return left->place < right->place ? -1 : 1;
}

/* --- output --- */

static void print_value(const json_t *value)
{
	char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);

	if (text)
		fputs(text, stdout);
	else
		json_out_text(json_string_value(value), json_string_length(value), true);
	free(text);
}

static void print_moment(const struct moment *m)
{
	const char *name;
	json_t *value;
	char at[TIMESTAMP_SIZE];

	printf("%s  %-19s", timestamp_print(m->us, at), m->what);
	json_object_foreach(m->fields, name, value)
	{
		printf(" %s=", name);
		print_value(value);
	}
	putchar('\n');
}

static void print_text(const struct history *h, struct slice id)
{
	size_t i;
	json_t *unread;

	fputs("event ", stdout);
	json_out_text(id.at, id.len, true);
	printf(": %s\n", h->is_stored                 ? "stored"
			 : h->has_letter              ? "not stored; a dead letter has it"
			 : json_array_size(h->unread) ? "not found in what could be read"
						      : "not stored");
	for (i = 0; i < h->count; i++)
		print_moment(&h->moments[i]);
	json_array_foreach(h->unread, i, unread)
	{
		printf("not read: %s: ", json_string_value(json_object_get(unread, "where")));
		print_value(json_object_get(unread, "why"));
		putchar('\n');
	}
}

static void print_json(const struct history *h, const char *id)
{
	struct json_out out;
	char at[TIMESTAMP_SIZE];

	json_out_open(&out);
	json_out_member(&out, "event_id", json_out_string(id));
	json_out_member(&out, "is_stored", json_boolean(h->is_stored));
	json_out_list(&out, "history");
	for (size_t i = 0; i < h->count; i++) {
		json_t *item = json_pack("{s:s, s:s}", "at", timestamp_print(h->moments[i].us, at), "what",
					 h->moments[i].what);

		json_object_update_missing(item, h->moments[i].fields);
		json_out_item(&out, item);
	}
	json_out_list_end(&out);
	json_out_member(&out, "unread", json_incref(h->unread));
	json_out_close(&out);
}

/* --- the command --- */

static void forget(struct history *h)
{
	for (size_t i = 0; i < h->count; i++) {
		free(h->moments[i].what);
		json_decref(h->moments[i].fields);
	}
	free(h->moments);
	json_decref(h->unread);
}

/* What Postgres takes: of bytes that are not UTF-8 no row can be, but letters keep them as question marks. */
static char *make_text(struct history *h, const char *id)
{
	char *text = memory_strdup(id);
	uint8_t *at = (uint8_t *)text, *bad;

	if (is_utf8(id, strlen(id)))
		return text;
	add_unread(h, "events", "the id is not UTF-8, so no row can have it; letters have it with ? for such bytes");
	while ((bad = (uint8_t *)u8_check(at, strlen((char *)at)))) {
		*bad = '?';
		at = bad + 1;
	}
	return text;
}

static int run_explain(const struct invocation *in)
{
	const struct explain_options *o = in->options;
	struct history h = {.unread = json_array()};
	struct slice id = {in->words[0], strlen(in->words[0])};
	struct session *s = session_open_to_read(in->config);
	char *text;
	int status;

	if (!s) {
		json_decref(h.unread);
		return STATUS_FAILED;
	}
	if (session_is_file(s)) {
		session_close(s);
		json_decref(h.unread);
		return dispatch_fail("explain needs Postgres: it does not work with --store sqlite://");
	}
	text = make_text(&h, id.at);
	ask_postgres(&h, s, text);
	session_close(s);
	ask_redis(&h, in->config, id);
	if (h.count)
		qsort(h.moments, h.count, sizeof(*h.moments), compare_moments);
	if (o->is_json)
		print_json(&h, id.at);
	else
		print_text(&h, id);
	status = h.count ? STATUS_FINE : STATUS_FAILED;
	free(text);
	forget(&h);
	return status;
}

const struct subcommand explain_command = {
	.name = "explain",
	.arguments = "EVENT_ID",
	.least_words = 1,
	.most_words = 1,
	.summary = "show what is known about one event, in order of time",
	.help = "Tells what is known of an event: when it happened and came, from which source, which listener stored\n"
		"it, what Redis says of it, deliveries with their attempts, dead letters and what was done to them. "
		"What\n"
		"cannot be read is named. Exit status 1: nothing is known of it. An id that begins with - comes after "
		"--.\n",
	.options = explain_options,
	.option_count = sizeof(explain_options) / sizeof(explain_options[0]),
	.options_size = sizeof(struct explain_options),
	.run = run_explain,
};
