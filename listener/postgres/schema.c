/* schema.c owns the numbered migrations and their lock. connection.c runs them on each new connection, so that a
 * listener started before its database, or moved to an empty one, creates the tables. */
#include "postgres/schema.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "001_events.sql.h"
#include "002_dead_letter_actions.sql.h"
#include "003_retention.sql.h"
#include "004_effects.sql.h"
#include "005_epoch.sql.h"
#include "006_outbox.sql.h"
#include "007_leases.sql.h"
#include "008_letter_sender.sql.h"
#include "009_feeds.sql.h"
#include "010_origin.sql.h"
#include "011_reports.sql.h"
#include "012_outbox_lanes.sql.h"
#include "013_exclusive.sql.h"
#include "014_duplicate_keys.sql.h"
#include "015_line_minutes.sql.h"
#include "016_line_holes.sql.h"
#include "017_line_lags.sql.h"
#include "018_line_disagree.sql.h"
#include "019_webhook_pauses.sql.h"
#include "020_line_zeros.sql.h"
#include "021_epoch_run.sql.h"
#include "022_epoch_place.sql.h"
#include "base/memory.h"
#include "indexes.sql.h"
#include "inspect.sql.h"

static const char *const migrations[] = {SQL_001_EVENTS,         SQL_002_DEAD_LETTER_ACTIONS,
					 SQL_003_RETENTION,      SQL_004_EFFECTS,
					 SQL_005_EPOCH,          SQL_006_OUTBOX,
					 SQL_007_LEASES,         SQL_008_LETTER_SENDER,
					 SQL_009_FEEDS,          SQL_010_ORIGIN,
					 SQL_011_REPORTS,        SQL_012_OUTBOX_LANES,
					 SQL_013_EXCLUSIVE,      SQL_014_DUPLICATE_KEYS,
					 SQL_015_LINE_MINUTES,   SQL_016_LINE_HOLES,
					 SQL_017_LINE_LAGS,      SQL_018_LINE_DISAGREE,
					 SQL_019_WEBHOOK_PAUSES, SQL_020_LINE_ZEROS,
					 SQL_021_EPOCH_RUN,      SQL_022_EPOCH_PLACE};

int schema_version(void)
{
	return sizeof(migrations) / sizeof(migrations[0]);
}

char *schema_expand(const char *sql, const char *schema)
{
	static const char mark[] = ":schema.";
	size_t size = strlen(sql) + 1, used = 0;
	char *out;

	for (const char *at = sql; (at = strstr(at, mark)); at++)
		size += strlen(schema) + 1;
	out = memory_alloc(size);
	for (const char *at; (at = strstr(sql, mark)); sql = at + sizeof(mark) - 1)
		used += (size_t)snprintf(out + used, size - used, "%.*s%s%s", (int)(at - sql), sql, schema,
					 *schema ? "." : "");
	snprintf(out + used, size - used, "%s", sql);
	return out;
}

const char *schema_inspect_sql(void)
{
	return SQL_INSPECT;
}

const char *schema_ask_sql(void)
{
	return "SELECT coalesce(pg_catalog.max(version), 0) FROM :schema.wsonce_schema";
}

#define VERSIONS_SQL \
	"CREATE TABLE IF NOT EXISTS :schema.wsonce_schema (" \
	"version INT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT pg_catalog.now());"

/* Locks the table until the transaction ends, so that of several listeners that start at once, the first migrates and
 * the others find nothing to do. If there is no table yet, the others wait until the first has created it, and ignore
 * that they cannot create it again. Not an advisory lock, whose number another program
 * may use. */
const char *schema_lock_sql(void)
{
	return "BEGIN; DO $do$ BEGIN " VERSIONS_SQL
	       " EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN NULL; END $do$;"
	       "LOCK TABLE :schema.wsonce_schema IN SHARE ROW EXCLUSIVE MODE;"
	       "SELECT coalesce(pg_catalog.max(version), 0) FROM :schema.wsonce_schema";
}

/* Creates indexes that only commands need if that is fast; otherwise commands/migrate.c does. */
static char *make_migrations(int version)
{
	static const char note[] = ";\nINSERT INTO :schema.wsonce_schema (version) VALUES (%d);\n";
	static const char indexes[] =
		"DO $do$ DECLARE missing RECORD; BEGIN FOR missing IN " SQL_INDEXES
		" LOOP IF missing.remove IS NULL AND missing.bytes < 64000000 THEN EXECUTE missing.make; END IF;"
		" END LOOP; END $do$;\n";
	size_t size = sizeof(indexes), used = 0;
	char *sql;

	assert(version >= 0);
	for (int i = version; i < schema_version(); i++)
		size += strlen(migrations[i]) + sizeof(note) + 12;
	sql = memory_calloc(1, size);
	for (int i = version; i < schema_version(); i++) {
		used += (size_t)sprintf(sql + used, "%s", migrations[i]);
		used += (size_t)sprintf(sql + used, note, i + 1);
	}
	if (version < schema_version())
		memcpy(sql + used, indexes, sizeof(indexes));
	return sql;
}

char *schema_upgrade_sql(int version)
{
	char *steps = make_migrations(version);
	const char *limits = *steps ? "SET LOCAL lock_timeout = '200ms';\nSET LOCAL statement_timeout = 0;\n" : "";
	char *sql = memory_printf("%s%sCOMMIT", limits, steps);

	free(steps);
	return sql;
}

char *schema_create_sql(const char *before)
{
	char *steps = make_migrations(0);
	char *sql = memory_printf("BEGIN;\n%s%s\n%sCOMMIT;\n", before, VERSIONS_SQL, steps);

	free(steps);
	return sql;
}
