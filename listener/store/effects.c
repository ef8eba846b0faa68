/* effects.c owns the statements that store events together with their effects, in one transaction. A handler that
 * raises an error aborts the transaction, and store_postgres.c finds the event that caused it. */
#include "store/effects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check_effects.sql.h"
#include "copy.sql.h"
#include "postgres/schema.h"

#define TEXT_OID 25

/* The triggers of the table events and its partitions. Append a condition on t. */
#define TRIGGERS \
	"SELECT FROM pg_catalog.pg_class AS o JOIN pg_catalog.pg_class AS e ON e.relnamespace = o.relnamespace AND " \
	"e.relname = 'events' CROSS JOIN LATERAL (SELECT e.oid UNION SELECT relid FROM " \
	"pg_catalog.pg_partition_tree(e.oid)) AS p (relid) JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = p.relid " \
	"WHERE o.oid = (SELECT tableoid FROM :schema.wsonce_schema LIMIT 1)"

/* Handlers of two batches may lock the same rows in a different order; Postgres then cancels one of the batches
 * (40P01). Every statement takes this shared lock, and a cancelled batch is sent again with an exclusive one
 * (effects_alone_sql), so it cannot deadlock twice. It is a table lock because that needs rights to the table, while
 * any role can take an advisory lock. The statement acquires it before its snapshot. */
#define SHARED "WITH held AS (SELECT FROM :schema.wsonce_epoch WHERE false FOR KEY SHARE)"

#define GIVEN   "event_id, event_type, payload, source, received_at, event_time"
#define COLUMNS GIVEN ", instance"

static const char given_sql[] =
	SHARED ", given AS MATERIALIZED (SELECT " GIVEN ", $7::text AS instance FROM unnest($1::text[], $2::text[], "
	       "$3::jsonb[], $4::text[], $5::timestamptz[], $6::timestamptz[]) AS g (" GIVEN "))";

/* RETURNING lists the new rows. They are in the table when the handler runs. */
static const char fresh_sql[] = ", fresh AS (INSERT INTO :schema.events (" COLUMNS ") SELECT " COLUMNS " FROM given "
				"ON CONFLICT (event_id) DO NOTHING RETURNING event_id, event_type, payload)";

/* An event that is new to this consumer may have been stored by another one long ago, so marks decide what is new. Rows
 * are inserted before marks, so that handlers see the rows. A BEFORE INSERT FOR EACH ROW trigger (of the table or a
 * partition) can suppress a row; only if there is one, an event is marked only if its row was inserted now or is
 * visible. Without such a trigger this is not checked, because a row that another transaction is inserting is neither.
 */
static const char consumer_sql[] =
	", stored AS (INSERT INTO :schema.events (" COLUMNS ") SELECT " COLUMNS " FROM given "
	"ON CONFLICT (event_id) DO NOTHING RETURNING event_id)"
	", keeper AS MATERIALIZED (" TRIGGERS " AND t.tgtype & 7 = 7)"
	", marked AS (INSERT INTO :schema.processed_events (consumer, event_id) SELECT $8::text, event_id FROM given "
	"WHERE (SELECT count(*) FROM stored) >= 0 AND (NOT EXISTS (SELECT FROM keeper) OR event_id IN (SELECT event_id "
	"FROM stored) OR EXISTS (SELECT FROM :schema.events AS e WHERE e.event_id = given.event_id OFFSET 0)) "
	"ON CONFLICT (consumer, event_id) DO NOTHING RETURNING event_id)"
	", fresh AS (SELECT event_id, event_type, payload FROM given JOIN marked USING (event_id))";

static const char outbox_sql[] =
	", posted AS (INSERT INTO :schema.outbox (target, event_id, event_type, payload) "
	"SELECT w.target, f.event_id, f.event_type, f.payload FROM fresh AS f JOIN unnest($9::text[], $10::text[]) "
	"AS w (target, event_type) ON w.event_type IS NULL OR w.event_type = f.event_type RETURNING 1)";

/* The first row of the result; see sql/queries/epoch.sql. */
#define EPOCH_SQL " SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch, 0"

/* See sql/queries/insert.sql. */
#define ID_SQL "pg_catalog.encode(pg_catalog.convert_to(event_id, 'UTF8'), 'escape')"

/* COPY stores all of its rows or none, so all of them are new. They are found again by id, which is greater than the
 * largest before, and by xmin. An INSERT trigger may write rows of its own, and would run before the handler instead of
 * after it: if there is one, a division by zero aborts the transaction. The upper bound of the id (in copied_sql) and
 * jit=off are for a table without statistics: from a lower bound alone the planner expects a third of all rows. */
static const char before_sql[] = SHARED " SELECT pg_catalog.set_config('jit', 'off', true), "
					"pg_catalog.set_config('wsonce.before', coalesce(max(id), 0)::text, true), "
					"pg_catalog.set_config('wsonce.rows', (%zu / (NOT EXISTS (" TRIGGERS
					" AND NOT t.tgisinternal AND t.tgtype & 4 <> 0))::int)::text, true) "
					"FROM :schema.events";

static const char copied_sql[] = "WITH fresh AS (SELECT %s FROM :schema.events "
				 "WHERE id > pg_catalog.current_setting('wsonce.before')::bigint "
				 "AND id <= least(pg_catalog.current_setting('wsonce.before')::bigint, "
				 "9223372035854775807) + 1000000000 "
				 "AND xmin = pg_catalog.pg_current_xact_id()::xid ORDER BY id)";

/* No ON CONFLICT: one existing mark aborts the whole statement, as an existing row does. */
static const char copied_marks_sql[] =
	", marked AS (INSERT INTO :schema.processed_events (consumer, event_id) SELECT %s, event_id FROM fresh "
	"RETURNING 1)";

static const char copied_outbox_sql[] =
	", posted AS (INSERT INTO :schema.outbox (target, event_id, event_type, payload) "
	"SELECT w.target, f.event_id, f.event_type, f.payload FROM fresh AS f JOIN (VALUES %s) AS w (target, "
	"event_type) ON w.event_type IS NULL OR w.event_type = f.event_type RETURNING 1)";

/* A division by zero aborts the transaction if rows are missing: a trigger suppressed them, a policy hides them, or ids
 * do not increase. */
static const char copied_end_sql[] =
	" UNION ALL SELECT (1 / (count(*) = pg_catalog.current_setting('wsonce.rows')::bigint)::int)::text, %s%s%s%s "
	"FROM fresh%s";

/* Insert the marks before the handler runs, so that it sees them. A division by zero aborts the transaction if a
 * trigger suppressed one. */
static const char behind_marks_sql[] =
	" WHERE (SELECT 1 / (count(*) = pg_catalog.current_setting('wsonce.rows')::bigint)::int FROM marked) = 1";

/* --- webhooks --- */

static size_t count_rows(const struct webhooks *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->count; i++)
		n += w->items[i].type_count ? w->items[i].type_count : 1;
	return n;
}

static void add_webhook(struct effects *e, const struct webhook *w)
{
	for (size_t i = 0; i < w->type_count; i++) {
		array_add(&e->names, w->name, strlen(w->name));
		array_add(&e->types, w->types[i], strlen(w->types[i]));
	}
	if (w->type_count)
		return;
	array_add(&e->names, w->name, strlen(w->name));
	array_add_null(&e->types);
}

/* --- the statement --- */

static char *make_sql(const struct effects *e, const char *handler)
{
	const struct config *c = e->config;

	return memory_printf("%s%s%s" EPOCH_SQL "%s UNION ALL SELECT " ID_SQL ", %s%s%s%s FROM fresh", given_sql,
			     *c->consumer ? consumer_sql : fresh_sql, c->webhooks.count ? outbox_sql : "",
			     *handler ? ", NULL" : "", c->webhooks.count ? "(SELECT count(*) FROM posted)" : "0",
			     *handler ? ", " : "", handler,
			     *handler ? "(event_id::text, event_type::text, payload)::text" : "");
}

static void forget(struct effects *e)
{
	free(e->handler);
	free(e->sql);
	free(e->copied_sql);
}

/* A simple query has no parameters. Hex keeps the text from ending the literal. */
static char *print_text(const char *text)
{
	size_t len = strlen(text);
	char *hex = memory_alloc(2 * len + 1), *sql;

	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)text[i]);
	hex[2 * len] = '\0';
	sql = memory_printf("pg_catalog.convert_from(pg_catalog.decode('%s', 'hex'), 'UTF8')", hex);
	free(hex);
	return sql;
}

/* Appends a row to a VALUES list. A NULL type means every type. */
static char *add_target(char *rows, const char *name, const char *type)
{
	char *target = print_text(name), *of_type = type ? print_text(type) : NULL;
	char *all = memory_printf("%s%s(%s, %s)", rows ? rows : "", rows ? ", " : "", target,
				  of_type ? of_type : "NULL::text");

	free(rows);
	free(target);
	free(of_type);
	return all;
}

static char *make_outbox(const struct webhooks *webhooks)
{
	char *rows = NULL, *sql;

	for (size_t i = 0; i < webhooks->count; i++) {
		const struct webhook *w = &webhooks->items[i];

		for (size_t j = 0; j < w->type_count; j++)
			rows = add_target(rows, w->name, w->types[j]);
		if (!w->type_count)
			rows = add_target(rows, w->name, NULL);
	}
	if (!rows)
		return memory_strdup("");
	sql = memory_printf(copied_outbox_sql, rows);
	free(rows);
	return sql;
}

static char *make_marks(const char *consumer)
{
	char *name, *sql;

	if (!*consumer)
		return memory_strdup("");
	name = print_text(consumer);
	sql = memory_printf(copied_marks_sql, name);
	free(name);
	return sql;
}

/* If more than one part reads the CTE fresh, Postgres materializes it, so it selects only the columns needed. */
static char *make_copied(const struct effects *e)
{
	const struct config *c = e->config;
	bool has_handler = *e->handler, has_webhooks = c->webhooks.count;
	char *rows =
		memory_printf(copied_sql, has_handler || has_webhooks ? "event_id, event_type, payload" : "event_id");
	char *marks = make_marks(c->consumer), *outbox = make_outbox(&c->webhooks);
	char *end = memory_printf(copied_end_sql, has_webhooks ? "(SELECT count(*) FROM posted)" : "0",
				  has_handler ? ", count(" : "", e->handler,
				  has_handler ? "(event_id::text, event_type::text, payload))" : "",
				  *c->consumer ? behind_marks_sql : "");
	char *sql = memory_printf("%s%s%s" EPOCH_SQL "%s%s", rows, marks, outbox, has_handler ? ", NULL" : "", end);

	free(rows);
	free(marks);
	free(outbox);
	free(end);
	return sql;
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
	forget(e);
	e->handler = memory_strdup(len ? answer + 1 : "");
	e->sql = make_sql(e, e->handler);
	e->copied_sql = make_copied(e);
	return NULL;
}

const char *effects_alone_sql(void)
{
	return SCHEMA_AS_BLOCK("LOCK TABLE :schema.wsonce_epoch IN EXCLUSIVE MODE");
}

const char *effects_sql(const struct effects *e)
{
	return e->sql;
}

/* --- parameters --- */

static struct postgres_value text_value(const char *text)
{
	return (struct postgres_value){TEXT_OID, text, strlen(text)};
}

void effects_check_values(const struct effects *e, struct postgres_value *values)
{
	values[0] = text_value(e->config->handler ? e->config->handler : "");
}

static void fill_webhooks(struct effects *e)
{
	const struct webhooks *webhooks = &e->config->webhooks;
	size_t n = count_rows(webhooks);

	e->version = webhooks->version;
	array_start(&e->names, ARRAY_TEXT, n);
	array_start(&e->types, ARRAY_TEXT, n);
	for (size_t i = 0; i < webhooks->count; i++)
		add_webhook(e, &webhooks->items[i]);
}

static void follow_config(struct effects *e)
{
	if (e->version == e->config->webhooks.version)
		return;
	fill_webhooks(e);
	free(e->copied_sql);
	e->copied_sql = make_copied(e);
}

void effects_values(struct effects *e, struct postgres_value *values)
{
	follow_config(e);
	values[0] = text_value(e->config->consumer);
	values[1] = (struct postgres_value){ARRAY_TEXT, e->names.bytes, e->names.len};
	values[2] = (struct postgres_value){ARRAY_TEXT, e->types.bytes, e->types.len};
}

char *effects_copy_sql(struct effects *e, size_t rows)
{
	char *before, *sql;

	follow_config(e);
	before = memory_printf(before_sql, rows);
	sql = memory_printf("%s; %s; %s", before, SQL_COPY, e->copied_sql);
	free(before);
	return sql;
}

bool effects_have_posted(const struct postgres_answer *answer)
{
	size_t len;

	return answer->rows && strcmp(postgres_cell(answer, 0, 1, &len), "0") != 0;
}

/* --- life --- */

bool effects_exist(const struct effects *e)
{
	return e->config->handler || *e->config->consumer || e->config->webhooks.count;
}

void effects_init(struct effects *e, const struct config *config)
{
	*e = (struct effects){.config = config};
	fill_webhooks(e);
}

void effects_free(struct effects *e)
{
	array_free(&e->names);
	array_free(&e->types);
	forget(e);
}
