/* effects.c owns the statements that store events together with their effects, in one transaction. Their parts are
 * sql/queries/effects_*.sql. A handler that raises an error aborts the transaction, and store_postgres.c finds the
 * event that caused it. */
#include "store/effects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check_effects.sql.h"
#include "copy.sql.h"
#include "effects_before.sql.h"
#include "effects_behind_marks.sql.h"
#include "effects_consumer.sql.h"
#include "effects_copied.sql.h"
#include "effects_copied_end.sql.h"
#include "effects_copied_marks.sql.h"
#include "effects_fresh.sql.h"
#include "effects_given.sql.h"
#include "effects_outbox.sql.h"
#include "effects_triggers.sql.h"
#include "postgres/schema.h"
#include "store/payload_filter.h"

/* The first row of the result; see sql/queries/epoch.sql. */
#define EPOCH_SQL " SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch, 0"

/* See sql/queries/insert.sql. */
#define ID_SQL "pg_catalog.encode(pg_catalog.convert_to(event_id, 'UTF8'), 'escape')"

static char *print_text(const char *text)
{
	struct bytes sql = {.at = NULL};

	payload_filter_text(&sql, text);
	bytes_text(&sql);
	return sql.at;
}

/* Appends a row to a VALUES list. A NULL type means every type. */
static void add_target(struct bytes *rows, const struct webhook *w, const char *type)
{
	bytes_add_text(rows, rows->len ? ", (" : "(");
	payload_filter_text(rows, w->name);
	bytes_add_text(rows, ", ");
	if (type)
		payload_filter_text(rows, type);
	else
		bytes_add_text(rows, "NULL::text");
	bytes_add_text(rows, ", ");
	payload_filter_write(rows, "f.payload", w->when);
	bytes_add_text(rows, ")");
}

static char *make_outbox(const struct webhooks *webhooks)
{
	struct bytes rows = {.at = NULL};
	char *sql;

	for (size_t i = 0; i < webhooks->count; i++) {
		const struct webhook *w = &webhooks->items[i];

		for (size_t j = 0; j < w->type_count; j++)
			add_target(&rows, w, w->types[j]);
		if (!w->type_count)
			add_target(&rows, w, NULL);
	}
	sql = rows.len ? memory_printf(SQL_EFFECTS_OUTBOX, bytes_text(&rows)) : memory_strdup("");
	bytes_free(&rows);
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
	char *fresh = make_fresh(c->consumer), *outbox = make_outbox(&c->webhooks);
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
	char *marks = make_marks(e->config->consumer), *outbox = make_outbox(&e->config->webhooks);
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

static void forget(struct effects *e)
{
	free(e->sql);
	free(e->copied_sql);
}

static void make_statements(struct effects *e)
{
	forget(e);
	e->version = e->config->webhooks.version;
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

char *effects_copy_sql(struct effects *e, size_t rows)
{
	char *before = memory_printf(SQL_EFFECTS_BEFORE, rows, SQL_EFFECTS_TRIGGERS), *sql;

	effects_sql(e);
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
	forget(e);
}
