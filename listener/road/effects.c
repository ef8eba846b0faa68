/* effects.c owns the statement that stores events with what follows from them. That all of it is one
 * statement makes it one transaction, which is committed or not at all; a handler that raises takes down
 * its statement, and store_postgres.c finds out whose event it was. */
#include "road/effects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check_effects.sql.h"

#define TEXT_OID 25

/* The lock's number is "wsonce" in ASCII and one more. Handlers of two batches may want the same rows in a
 * different order, and then Postgres cancels one of them (40P01). That one holds the lock alone when it is
 * sent again, so it cannot happen to it twice. */
#define GIVEN   "event_id, event_type, payload, source, received_at, event_time"
#define COLUMNS GIVEN ", instance"

static const char given_sql[] =
	"WITH given AS MATERIALIZED (SELECT " GIVEN ", $7::text AS instance FROM unnest($1::text[], $2::text[], "
	"$3::jsonb[], $4::text[], $5::timestamptz[], $6::timestamptz[]) AS g (" GIVEN ") WHERE (SELECT "
	"pg_catalog.pg_advisory_xact_lock%s(131337674449766)) "
	"IS NOT NULL)";

/* RETURNING names the rows that are new; a handler sees each of them in the table. */
static const char fresh_sql[] = ", fresh AS (INSERT INTO :schema.events (" COLUMNS ") SELECT " COLUMNS " FROM given "
				"ON CONFLICT (event_id) DO NOTHING RETURNING event_id, event_type, payload)";

/* What is new to a consumer another one may have stored long ago. The rows come first, so that handlers see
 * them here as well. Where a trigger could keep a row back (BEFORE INSERT FOR EACH ROW, of the table or a partition),
 * the row must be new or seen; else this is not asked, because a row that another transaction stores meanwhile is
 * neither. */
static const char consumer_sql[] =
	", stored AS (INSERT INTO :schema.events (" COLUMNS ") SELECT " COLUMNS " FROM given "
	"ON CONFLICT (event_id) DO NOTHING RETURNING event_id)"
	", keeper AS MATERIALIZED (SELECT FROM pg_catalog.pg_class AS o JOIN pg_catalog.pg_class AS e "
	"ON e.relnamespace = o.relnamespace AND e.relname = 'events' CROSS JOIN LATERAL (SELECT e.oid UNION SELECT "
	"relid "
	"FROM pg_catalog.pg_partition_tree(e.oid)) AS p (relid) JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = p.relid "
	"WHERE o.oid = (SELECT tableoid FROM :schema.wsonce_schema LIMIT 1) AND t.tgtype & 7 = 7)"
	", marked AS (INSERT INTO :schema.processed_events (consumer, event_id) SELECT $8::text, event_id FROM given "
	"WHERE (SELECT count(*) FROM stored) >= 0 AND (NOT EXISTS (SELECT FROM keeper) OR event_id IN (SELECT event_id "
	"FROM stored) OR EXISTS (SELECT FROM :schema.events AS e WHERE e.event_id = given.event_id OFFSET 0)) "
	"ON CONFLICT (consumer, event_id) DO NOTHING RETURNING event_id)"
	", fresh AS (SELECT event_id, event_type, payload FROM given JOIN marked USING (event_id))";

static const char outbox_sql[] =
	", posted AS (INSERT INTO :schema.outbox (target, event_id, event_type, payload) "
	"SELECT w.target, f.event_id, f.event_type, f.payload FROM fresh AS f JOIN unnest($9::text[], $10::text[]) "
	"AS w (target, event_type) ON w.event_type IS NULL OR w.event_type = f.event_type RETURNING 1)";

/* The first row, see sql/queries/epoch.sql. */
#define EPOCH_SQL " SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch, 0"

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

static char *make_sql(const struct effects *e, const char *handler, const char *lock)
{
	const struct config *c = e->config;
	char *given = memory_printf(given_sql, lock);
	char *sql = memory_printf("%s%s%s" EPOCH_SQL "%s UNION ALL SELECT event_id, %s%s%s%s FROM fresh", given,
				  *c->consumer ? consumer_sql : fresh_sql, c->webhooks.count ? outbox_sql : "",
				  *handler ? ", NULL" : "", c->webhooks.count ? "(SELECT count(*) FROM posted)" : "0",
				  *handler ? ", " : "", handler,
				  *handler ? "(event_id::text, event_type::text, payload)::text" : "");

	free(given);
	return sql;
}

/* The answer is = and the handler's name as it is to be written, or what is wrong with it. */
const char *effects_learn(struct effects *e, const char *answer, size_t len)
{
	if (len && *answer != '=') {
		snprintf(e->fault, sizeof(e->fault),
			 "--handler %.100s: %.*s; a handler is a function (event_id text, "
			 "event_type text, payload jsonb) RETURNS void",
			 e->config->handler, (int)len, answer);
		return e->fault;
	}
	free(e->shared_sql);
	free(e->alone_sql);
	e->shared_sql = make_sql(e, len ? answer + 1 : "", "_shared");
	e->alone_sql = make_sql(e, len ? answer + 1 : "", "");
	return NULL;
}

const char *effects_sql(const struct effects *e, bool is_alone)
{
	return is_alone ? e->alone_sql : e->shared_sql;
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

void effects_values(struct effects *e, struct postgres_value *values)
{
	if (e->version != e->config->webhooks.version)
		fill_webhooks(e);
	values[0] = text_value(e->config->consumer);
	values[1] = (struct postgres_value){ARRAY_TEXT, e->names.bytes, e->names.len};
	values[2] = (struct postgres_value){ARRAY_TEXT, e->types.bytes, e->types.len};
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
	free(e->shared_sql);
	free(e->alone_sql);
}
