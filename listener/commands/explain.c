/* explain.c owns `wsonce explain`: what Postgres and Redis know about one event, in order of time. Each table is
 * queried separately, so a missing right hides one part and not the rest. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "commands/table.h"
#include "commands/json_out.h"
#include "commands/redis_query.h"
#include "commands/session.h"
#include "event/duplicates.h"
#include "explain.sql.h"
#include "explain_copies.sql.h"
#include "claim/mark.h"

struct history {
	json_t *moments; /* in order of time, with us since 1970 */
	json_t *unread;  /* {where, why}: what could not be read */
	bool is_stored;
	bool has_dead_letter;
};

/* --- queries --- */

/* Takes ownership of fields. Moments with the same time stay in the order in which they were added. */
static void add_moment(struct history *h, int64_t us, const char *what, json_t *fields)
{
	char at[TIMESTAMP_SIZE];
	json_t *moment = json_pack("{s:s, s:s}", "at", timestamp_print(us, at), "what", what);
	size_t place = json_array_size(h->moments);

	json_object_update(moment, fields);
	json_object_set_new(moment, "us", json_integer(us));
	while (place && json_integer_value(json_object_get(json_array_get(h->moments, place - 1), "us")) > us)
		place--;
	json_array_insert_new(h->moments, place, moment);
	json_decref(fields);
}

static void add_unread(struct history *h, const char *where, const char *why)
{
	json_array_append_new(h->unread, json_pack("{s:s, s:o}", "where", where, "why", json_out_string(why)));
}

/* Rows of a part of sql/queries/explain.sql: microseconds since 1970, what happened, and a JSON object. */
static void take_table(void *arg, const char *table, const struct pg_result *rows, const char *why)
{
	struct history *h = arg;
	size_t n = rows ? session_count(rows) : 0;

	if (!rows)
		add_unread(h, table, why);
	for (size_t i = 0; i < n; i++)
		add_moment(h, session_number(rows, i, 0), session_text(rows, i, 1),
			   json_loads(session_text(rows, i, 2), 0, NULL));
	h->is_stored |= n && strcmp(table, "events") == 0;
	h->has_dead_letter |= n && strcmp(table, "dead_letters") == 0;
}

/* Returns the microseconds of a time in milliseconds that Redis has; 0 if it is out of range. */
static int64_t read_ms(const char *text)
{
	int64_t ms = strtoll(text, NULL, 10);

	return ms >= 0 && ms <= INT64_C(253402300799999) ? ms * 1000 : 0;
}

/* value is instance.nonce@ms. */
static void take_claim(struct history *h, const char *value, json_int_t ttl_ms)
{
	const char *at = strrchr(value, '@'), *end = at ? at : value + strlen(value);
	AUTO_FREE char *owner = memory_strndup(value, (size_t)(end - value));

	add_moment(h, at ? read_ms(at + 1) : 0, "claimed",
		   json_pack("{s:o, s:I}", "listener", json_out_string(owner), "expires_in_ms", ttl_ms));
}

static void take_mark(struct history *h, const char *value, const struct mark *mark, json_int_t ttl_ms)
{
	AUTO_FREE char *epoch = memory_printf("%08" PRIx32, mark->epoch);

	add_moment(h, read_ms(value + sizeof(MARK_DONE_HEAD) - 1), mark->is_dead ? "marked dead" : "marked done",
		   json_pack("{s:I, s:s}", "expires_in_ms", ttl_ms, "epoch", epoch));
}

static void ask_redis(struct history *h, const struct config *config, struct slice id)
{
	struct redis_query *q;
	struct mark mark;
	int64_t ttl_ms;
	char value[600];

	if (strcmp(config->redis, "none") == 0) {
		add_unread(h, "redis", "--redis none, so claims and marks are unknown");
		return;
	}
	q = redis_query_open(config);
	if (!q || redis_query_read(q, id, value, sizeof(value), &ttl_ms))
		add_unread(h, "redis", redis_query_failure());
	else if (*value && mark_read(&mark, value, strlen(value)))
		take_mark(h, value, &mark, ttl_ms);
	else if (*value)
		take_claim(h, value, ttl_ms);
	redis_query_close(q);
}

/* --- output --- */

static void print_member(const char *name, const json_t *value)
{
	AUTO_FREE char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);

	printf(" %s=", name);
	if (text)
		fputs(text, stdout);
	else
		json_out_text(json_string_value(value), json_string_length(value), true);
}

static void print_text(const struct history *h, const char *id)
{
	json_t *item, *value;
	const char *name;
	size_t i;

	json_out_line("event %s: %s", id,
		      h->is_stored                 ? "stored"
		      : h->has_dead_letter         ? "not stored; a dead letter has it"
		      : json_array_size(h->unread) ? "not found in what could be read"
						   : "not stored");
	json_array_foreach(h->moments, i, item)
	{
		printf("%s  ", member_text(item, "at"));
		json_out_column(member_text(item, "what"), 19);
		json_object_foreach(item, name, value) if (strcmp(name, "at") != 0 && strcmp(name, "what") != 0)
			print_member(name, value);
		putchar('\n');
	}
	json_array_foreach(h->unread, i, item)
		json_out_line("not read: %s: %s", member_text(item, "where"), member_text(item, "why"));
}

/* --- the command --- */

/* Postgres takes UTF-8 only. Dead letters have ? for bytes of an id that are not UTF-8, so that is what is searched. */
static char *make_text(struct history *h, const char *id)
{
	char *text = memory_strdup(id);

	if (is_utf8(id, strlen(id)))
		return text;
	add_unread(h, "events",
		   "the id is not UTF-8, so no row can have it; dead letters have it with ? for such bytes");
	for (uint8_t *at = (uint8_t *)text; (at = (uint8_t *)u8_check(at, strlen((char *)at)));)
		*at++ = '?';
	return text;
}

static int explain(struct history *h, const struct invocation *in)
{
	const struct given *o = in->options;
	struct slice id = {in->words[0], strlen(in->words[0])};
	AUTO_FREE char *text = make_text(h, id.at);
	char key[17];
	const char *const values[] = {text}, *const keys[] = {key};
	json_t *moment;
	size_t i;

	session_each_part(in->session, SQL_EXPLAIN, "-- table ", 1, values, take_table, h);
	duplicates_key(id.at, id.len, key);
	session_each_part(in->session, SQL_EXPLAIN_COPIES, "-- table ", 1, keys, take_table, h);
	ask_redis(h, in->config, id);
	json_array_foreach(h->moments, i, moment) json_object_del(moment, "us");
	if (o->is_json)
		json_out_object(json_pack("{s:o, s:b, s:O, s:O}", "event_id", json_out_string(id.at), "is_stored",
					  h->is_stored, "history", h->moments, "unread", h->unread));
	else
		print_text(h, id.at);
	return i ? STATUS_FINE : STATUS_FAILED;
}

int explain_command(const struct invocation *in)
{
	struct history h = {.moments = json_array(), .unread = json_array()};
	int status = session_is_file(in->session)
			     ? dispatch_fail("explain needs Postgres: it does not work with --store sqlite://")
			     : explain(&h, in);

	json_decref(h.moments);
	json_decref(h.unread);
	return status;
}
