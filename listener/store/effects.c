/* effects.c owns the statements that store events together with their effects, in one transaction. Their parts are
 * sql/queries/effects_*.sql. A handler that raises an error aborts the transaction, and store_postgres.c finds the
 * event that caused it. */
#include "store/effects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "check_effects.sql.h"
#include "copy.sql.h"
#include "effects_before.sql.h"
#include "effects_behind_marks.sql.h"
#include "effects_chosen.sql.h"
#include "effects_consumer.sql.h"
#include "effects_copied.sql.h"
#include "effects_copied_end.sql.h"
#include "effects_copied_marks.sql.h"
#include "effects_fresh.sql.h"
#include "effects_given.sql.h"
#include "effects_outbox.sql.h"
#include "effects_triggers.sql.h"
#include "epoch.sql.h"
#include "postgres/schema.h"

/* The first row of the result; see sql/queries/epoch.sql. */
#define EPOCH_SQL " " SQL_EPOCH ", 0"

/* See sql/queries/effects_before.sql. */
#define CHOSEN_SQL   "pg_catalog.current_setting('wsonce.chosen')"
#define CHOSEN_BYTES 16 /* of a digest */

/* The new events, with the digests that effects_choose writes. Each is computed once, which OFFSET 0 ensures. */
#define DIGESTS_SQL \
	"(SELECT *, pg_catalog.encode(substring(pg_catalog.sha256(pg_catalog.convert_to(event_id, 'UTF8'))" \
	" FROM 1 FOR 16), 'hex') AS digest FROM fresh OFFSET 0)"

/* See sql/queries/insert.sql. */
#define ID_SQL "pg_catalog.encode(pg_catalog.convert_to(event_id, 'UTF8'), 'escape')"

static void add_hex(struct bytes *b, const void *bytes, size_t len)
{
	write_hex(bytes_reserve(b, 2 * len), bytes, len);
	b->len += 2 * len;
}

/* Appends an expression for a text. A simple query has no parameters, so the text is written in hex. */
static void add_text(struct bytes *sql, const char *text)
{
	bytes_add_text(sql, "pg_catalog.convert_from(pg_catalog.decode('");
	add_hex(sql, text, strlen(text));
	bytes_add_text(sql, "', 'hex'), 'UTF8')");
}

static char *print_text(const char *text)
{
	struct bytes sql = {.at = NULL};

	add_text(&sql, text);
	bytes_text(&sql);
	return sql.at;
}

/* Appends a row to a VALUES list. A NULL type means every type. */
static void add_target(struct bytes *rows, const struct webhook *w, const char *type, const char *key)
{
	bytes_add_text(rows, rows->len ? ", (" : "(");
	add_text(rows, w->name);
	bytes_add_text(rows, ", ");
	if (type)
		add_text(rows, type);
	else
		bytes_add_text(rows, "NULL::text");
	bytes_add_text(rows, key);
}

/* chosen is an expression for the text that effects_choose makes. */
static char *make_outbox(const struct effects *e, const char *chosen)
{
	const struct webhooks *webhooks = &e->config->webhooks;
	struct bytes rows = {.at = NULL};
	char *choice = e->has_conditions ? memory_printf(SQL_EFFECTS_CHOSEN, chosen) : memory_strdup(""), *sql;

	for (size_t i = 0; i < webhooks->count; i++) {
		const struct webhook *w = &webhooks->items[i];
		char *key = e->when[i].count ? memory_printf(", '%zu:')", i) : memory_strdup(", NULL::text)");

		for (size_t j = 0; j < w->type_count; j++)
			add_target(&rows, w, w->types[j], key);
		if (!w->type_count)
			add_target(&rows, w, NULL, key);
		free(key);
	}
	sql = rows.len ? memory_printf(SQL_EFFECTS_OUTBOX, e->has_conditions ? DIGESTS_SQL : "fresh", bytes_text(&rows),
				       choice)
		       : memory_strdup("");
	bytes_free(&rows);
	free(choice);
	return sql;
}

/* --- after a batch, and after a COPY --- */

static char *make_fresh(const char *consumer)
{
	char *name, *sql;

	if (!*consumer)
		return memory_strdup(SQL_EFFECTS_FRESH);
	name = print_text(consumer);
	sql = memory_printf(SQL_EFFECTS_CONSUMER, SQL_EFFECTS_TRIGGERS, name);
	free(name);
	return sql;
}

static char *make_sql(const struct effects *e)
{
	const struct config *c = e->config;
	bool has_handler = *e->handler;
	char *fresh = make_fresh(c->consumer), *outbox = make_outbox(e, "$8::text");
	char *sql = memory_printf("%s%s%s" EPOCH_SQL "%s UNION ALL SELECT " ID_SQL ", %s%s%s%s FROM fresh",
				  SQL_EFFECTS_GIVEN, fresh, outbox, has_handler ? ", NULL" : "",
				  *outbox ? "(SELECT pg_catalog.count(*) FROM posted)" : "0", has_handler ? ", " : "",
				  e->handler, has_handler ? "(event_id::text, event_type::text, payload)::text" : "");

	free(fresh);
	free(outbox);
	return sql;
}

static char *make_marks(const char *consumer)
{
	char *name, *sql;

	if (!*consumer)
		return memory_strdup("");
	name = print_text(consumer);
	sql = memory_printf(SQL_EFFECTS_COPIED_MARKS, name);
	free(name);
	return sql;
}

static char *make_copied(const struct effects *e)
{
	bool has_handler = *e->handler;
	char *marks = make_marks(e->config->consumer), *outbox = make_outbox(e, CHOSEN_SQL);
	char *rows = memory_printf(SQL_EFFECTS_COPIED,
				   has_handler || *outbox ? "event_id, event_type, payload" : "event_id");
	char *end = memory_printf(SQL_EFFECTS_COPIED_END, *outbox ? "(SELECT pg_catalog.count(*) FROM posted)" : "0",
				  has_handler ? ", pg_catalog.count(" : "", e->handler,
				  has_handler ? "(event_id::text, event_type::text, payload))" : "");
	char *sql = memory_printf("%s%s%s" EPOCH_SQL "%s %s%s", rows, marks, outbox, has_handler ? ", NULL" : "", end,
				  *marks ? SQL_EFFECTS_BEHIND_MARKS : "");

	free(rows);
	free(marks);
	free(outbox);
	free(end);
	return sql;
}

/* --- conditions --- */

static void compile(struct effects *e)
{
	const struct webhooks *webhooks = &e->config->webhooks;

	e->pointers = json_pointers_new();
	e->when = memory_calloc(webhooks->count + 1, sizeof(*e->when));
	e->when_count = webhooks->count;
	e->has_conditions = false;
	for (size_t i = 0; i < e->when_count; i++) {
		conditions_compile(&e->when[i], webhooks->items[i].when, e->pointers);
		e->has_conditions |= e->when[i].count > 0;
	}
}

static void choose(struct effects *e, const struct event *ev)
{
	unsigned char digest[32];
	char key[24];

	json_pointers_read(e->pointers, ev->payload.at, ev->payload.at + ev->payload.len);
	sha256(ev->id, ev->id_len, digest);
	for (size_t i = 0; i < e->when_count; i++) {
		if (!e->when[i].count || !conditions_hold(&e->when[i], json_pointers_slots(e->pointers)))
			continue;
		snprintf(key, sizeof(key), "%zu:", i);
		bytes_add_text(&e->chosen, key);
		add_hex(&e->chosen, digest, CHOSEN_BYTES);
		bytes_add_byte(&e->chosen, ',');
	}
}

const char *effects_choose(struct effects *e, const struct batch *b, size_t from, size_t to)
{
	e->chosen.len = 0;
	for (size_t i = from; e->has_conditions && i < to; i++)
		choose(e, b->events[i]);
	return e->has_conditions ? bytes_text(&e->chosen) : NULL;
}

/* --- the statements --- */

static void forget(struct effects *e)
{
	for (size_t i = 0; i < e->when_count; i++)
		conditions_free(&e->when[i]);
	free(e->when);
	json_pointers_free(e->pointers);
	free(e->sql);
	free(e->copied_sql);
}

static void make_statements(struct effects *e)
{
	forget(e);
	e->version = e->config->webhooks.version;
	compile(e);
	e->sql = make_sql(e);
	e->copied_sql = make_copied(e);
}

/* The answer is "=" and the quoted name of the handler, or what is wrong with the handler. */
const char *effects_learn(struct effects *e, const char *answer, size_t len)
{
	if (len && *answer != '=') {
		snprintf(e->fault, sizeof(e->fault),
			 "--handler %.100s: %.*s; a handler is a function (event_id text, "
			 "event_type text, payload jsonb) RETURNS void",
			 e->config->handler, (int)len, answer);
		return e->fault;
	}
	free(e->handler);
	e->handler = memory_strdup(len ? answer + 1 : "");
	make_statements(e);
	return NULL;
}

bool effects_are_known(const struct effects *e)
{
	return e->handler;
}

const char *effects_alone_sql(void)
{
	return SCHEMA_AS_BLOCK("LOCK TABLE :schema.wsonce_epoch IN EXCLUSIVE MODE");
}

/* Makes the statement again if a reload has changed the webhooks. */
const char *effects_sql(struct effects *e)
{
	if (e->version != e->config->webhooks.version)
		make_statements(e);
	return e->sql;
}

char *effects_copy_sql(struct effects *e, const struct batch *b, size_t from, size_t to, size_t rows)
{
	const char *chosen = effects_sql(e) ? effects_choose(e, b, from, to) : NULL;
	char *before = memory_printf(SQL_EFFECTS_BEFORE, rows, SQL_EFFECTS_TRIGGERS, chosen ? chosen : ""), *sql;

	sql = memory_printf("%s; %s; %s", before, SQL_COPY, e->copied_sql);
	free(before);
	return sql;
}

bool effects_have_posted(const struct postgres_answer *answer)
{
	size_t len;

	return answer->rows && strcmp(postgres_cell(answer, 0, 1, &len), "0") != 0;
}

bool effects_exist(const struct effects *e)
{
	return e->config->handler || *e->config->consumer || e->config->webhooks.count;
}

void effects_free(struct effects *e)
{
	free(e->handler);
	bytes_free(&e->chosen);
	forget(e);
}
