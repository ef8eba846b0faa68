/* purge_tables.c owns what is particular to each table that wsonce purge goes through. How it goes is purge.c's. */
#include "commands/purge_tables.h"

#include "purge_letters.sql.h"
#include "purge_outbox.sql.h"
#include "purge_payloads.sql.h"
#include "purge_processed.sql.h"
#include "purge_rows.sql.h"

#define CUTOFF(table, column) \
	"SELECT cutoff, CASE WHEN pg_catalog.isfinite(cutoff) THEN pg_catalog.floor(extract(epoch FROM now() - " \
	"cutoff)) ELSE 0 END FROM (" \
	"SELECT coalesce(greatest(now() - $1::bigint * interval '1 second', CASE WHEN $2::bigint = 0 THEN 'infinity'" \
	" WHEN $2::bigint > 0 THEN (SELECT " column " FROM :schema." table " WHERE " column " IS NOT NULL" \
	" ORDER BY " column " DESC OFFSET greatest($2::bigint, 1) - 1 LIMIT 1) END), '-infinity') AS cutoff) AS c"

/* Finds by the indexes of sql/queries/indexes.sql that nothing goes, or what goes: the oldest row that may is asked for
 * first, since that takes no estimate of how many are older. Those of the others are read from the table, once. The sum
 * keeps the planner from looking for the lowest id, row by row, in the primary key. */
#define RANGE(old) \
	"SELECT pg_catalog.min(id + 0) - 1, pg_catalog.max(id + 0) FROM (" old ") AS old WHERE $2::text <> ''"
#define OLD(table, column, may_go) \
	"SELECT id FROM :schema." table " WHERE " may_go " AND " column \
	" < $1::timestamptz AND $1::timestamptz > (SELECT " \
	"pg_catalog.min(" column ") FROM :schema." table " WHERE " may_go ")"

#define COUNT(table, column, is_old) \
	"SELECT count(*) FILTER (WHERE is_old), pg_catalog.sum(size) FILTER (WHERE is_old), pg_catalog.max(id) FROM (" \
	"SELECT id, pg_catalog.pg_column_size(" column ") AS size, " is_old " AS is_old FROM :schema." table \
	" WHERE id > $1::bigint ORDER BY id LIMIT $3::bigint) AS step"

/* As COUNT, by the key of purge_processed.sql. */
static const char count_processed_sql[] =
	"WITH step AS MATERIALIZED (SELECT consumer, event_id, pg_catalog.pg_column_size(p) AS size,"
	" processed_at < $2::timestamptz AS is_old FROM :schema.processed_events AS p"
	" WHERE (consumer, event_id) > ($1::json->>0, $1::json->>1) ORDER BY consumer, event_id LIMIT $3::bigint)"
	" SELECT count(*) FILTER (WHERE is_old), pg_catalog.sum(size) FILTER (WHERE is_old), (SELECT "
	"pg_catalog.json_build_array(consumer,"
	" event_id) FROM step ORDER BY consumer DESC, event_id DESC LIMIT 1) FROM step";

/* Is the row that somebody did something to gone? As long as it is there, show tells what was done. */
#define IS_GONE(table, id_of) "NOT EXISTS (SELECT FROM :schema." table " AS t WHERE t.id = " id_of ")"

/* As purge_letters.sql, of what people did to rows that are gone. That is asked row by row, not by a join, which
 * may change the order. */
#define STEP_ACTIONS(actions, is_gone) \
	"WITH old AS MATERIALIZED (SELECT id FROM (SELECT id, done_at, " is_gone " AS is_gone FROM :schema." actions \
	" WHERE id > $1::bigint ORDER BY id LIMIT $4::bigint) AS step" \
	" WHERE done_at < $2::timestamptz AND is_gone LIMIT $3::bigint)," \
	" free AS MATERIALIZED (SELECT id FROM :schema." actions \
	" WHERE id IN (SELECT id FROM old) FOR UPDATE SKIP LOCKED)," \
	" done AS (DELETE FROM :schema." actions " WHERE id IN (SELECT id FROM free) RETURNING 1)" \
	" SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), CASE" \
	" WHEN (SELECT count(*) FROM old) = $3::bigint THEN (SELECT pg_catalog.max(id) FROM old)" \
	" ELSE (SELECT pg_catalog.max(id) FROM (SELECT id FROM :schema." actions \
	" WHERE id > $1::bigint ORDER BY id LIMIT $4::bigint) AS step) END"

/* Does what nobody has dealt with go as well? */
#define OPEN_TOO "pg_catalog.current_setting('wsonce.open_too', true) = 'on'"

#define LETTER_IS_GONE   IS_GONE("dead_letters", "letter_id")
#define DELIVERY_IS_GONE IS_GONE("outbox", "delivery_id")

static const struct retention_guard_deletion deletes_rows = {
	.option = "--delete-rows",
	.age = "--older-than",
	.harm = "A late copy of an event whose row is gone would be stored again. Without --delete-rows the ids stay "
		"and only payloads go; or",
};

static const struct retention_guard_deletion forgets_processed = {
	.option = "--processed-older-than, --processed-keep",
	.age = "the youngest that goes",
	.harm = "A late copy of an event that is no longer known to be processed would be processed again:",
};

/* --- of a file --- */

#define LITE_NOW(change) "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'" change ")"
#define LITE_CUTOFF(table, column) \
	"SELECT cutoff, CASE WHEN cutoff LIKE '2%' THEN unixepoch('now') - unixepoch(cutoff) ELSE 0 END FROM (" \
	"SELECT coalesce(max(c), '-infinity') AS cutoff FROM (SELECT " LITE_NOW( \
		", '-' || ?1 || ' seconds'") " AS c WHERE ?1 IS NOT NULL UNION ALL SELECT 'infinity' WHERE ?2 = '0' " \
					     "UNION ALL SELECT (SELECT " column " FROM " table " WHERE " column \
					     " IS NOT NULL ORDER BY " column \
					     " DESC LIMIT 1 OFFSET CAST(?2 AS INTEGER) - 1)" \
					     " WHERE CAST(?2 AS INTEGER) > 0))"
#define LITE_RANGE(table, is_old) "SELECT min(id) - 1, max(id) FROM " table " WHERE " is_old("?1") " AND ?2 <> ''"
#define LITE_STEP(table, change, is_old) \
	change " WHERE id > CAST(?1 AS INTEGER) AND id <= (SELECT max(id) FROM (SELECT id FROM " table \
	       " WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?3 AS INTEGER))) AND " is_old( \
		       "?2") ";" \
			     "SELECT changes(), changes(), (SELECT max(id) FROM (SELECT id FROM " table \
			     " WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?3 AS INTEGER)))"
#define LITE_COUNT(table, column, is_old) \
	"SELECT count(*) FILTER (WHERE is_old), coalesce(sum(size) FILTER (WHERE is_old), 0), max(id) FROM (SELECT " \
	"id," \
	" length(CAST(" column \
	" AS BLOB)) AS size, " is_old("?2") " AS is_old FROM " table \
					    " WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?3 AS INTEGER))"

#define LITE_PAYLOADS(cutoff) "processed_at < " cutoff " AND purged_at IS NULL"
#define LITE_ROWS(cutoff)     "processed_at < " cutoff
#define LITE_LETTERS(cutoff) \
	"last_seen < " cutoff \
	" AND (coalesce(last_seen <= resolved_at, false) OR EXISTS (SELECT 1 FROM sqlite_temp_schema" \
	" WHERE name = 'wsonce_open_too'))"
#define LITE_ACTIONS(cutoff) \
	"done_at < " cutoff " AND NOT EXISTS (SELECT 1 FROM dead_letters AS t WHERE t.id = letter_id)"

/* The four statements of a table. */
#define LITE(table, moment, column, change, is_old) \
	.cutoff_sql = LITE_CUTOFF(table, moment), .range_sql = LITE_RANGE(table, is_old), \
	.step_sql = LITE_STEP(table, change, is_old), .count_sql = LITE_COUNT(table, column, is_old)

const struct pass purge_file_tables[PURGE_FILE_TABLES] = {
	{
		.table = PASS_EVENTS,
		.rows = PASS_ROWS_STAY,
		.name = "payloads",
		.done_as = "payloads removed",
		.first = PASS_FIRST_ID,
		LITE("events", "processed_at", "payload",
		     "UPDATE events SET payload = 'null', purged_at = " LITE_NOW(""), LITE_PAYLOADS),
	},
	{
		.table = PASS_EVENTS,
		.rows = PASS_ROWS_GO,
		.name = "rows",
		.done_as = "rows deleted",
		.first = PASS_FIRST_ID,
		.guard = &deletes_rows,
		LITE("events", "processed_at", "payload", "DELETE FROM events", LITE_ROWS),
	},
	{
		.table = PASS_LETTERS,
		.name = "dead_letters",
		.done_as = "dead letters deleted",
		.first = PASS_FIRST_ID,
		LITE("dead_letters", "last_seen", "raw", "DELETE FROM dead_letters", LITE_LETTERS),
	},
	{
		.table = PASS_ACTIONS,
		.name = "dead_letter_actions",
		.done_as = "records of dead letters deleted",
		.first = PASS_FIRST_ID,
		LITE("dead_letter_actions", "done_at", "note", "DELETE FROM dead_letter_actions", LITE_ACTIONS),
	},
};

/* --- of Postgres --- */

const struct pass purge_tables[PURGE_TABLES] = {
	{
		.table = PASS_EVENTS,
		.rows = PASS_ROWS_STAY,
		.name = "payloads",
		.done_as = "payloads removed",
		.first = PASS_FIRST_ID,
		.cutoff_sql = CUTOFF("events", "processed_at"),
		.range_sql = RANGE(OLD("events", "processed_at", "purged_at IS NULL")),
		.step_sql = SQL_PURGE_PAYLOADS,
		.count_sql = COUNT("events", "payload", "processed_at < $2::timestamptz AND purged_at IS NULL"),
	},
	{
		.table = PASS_EVENTS,
		.rows = PASS_ROWS_GO,
		.name = "rows",
		.done_as = "rows deleted",
		.first = PASS_FIRST_ID,
		.guard = &deletes_rows,
		.cutoff_sql = CUTOFF("events", "processed_at"),
		.range_sql = RANGE(OLD("events", "processed_at", "purged_at IS NULL") " UNION ALL " OLD(
			"events", "processed_at", "purged_at IS NOT NULL")),
		.step_sql = SQL_PURGE_ROWS,
		.count_sql = COUNT("events", "payload", "processed_at < $2::timestamptz"),
	},
	{
		.table = PASS_LETTERS,
		.name = "dead_letters",
		.done_as = "dead letters deleted",
		.first = PASS_FIRST_ID,
		.cutoff_sql = CUTOFF("dead_letters", "last_seen"),
		.range_sql =
			RANGE(OLD("dead_letters", "last_seen",
				  "last_seen <= resolved_at") " UNION ALL "
							      "SELECT id FROM :schema.dead_letters WHERE last_seen < "
							      "$1::timestamptz AND " OPEN_TOO
							      " AND (resolved_at IS NULL OR last_seen > resolved_at)"),
		.step_sql = SQL_PURGE_LETTERS,
		.count_sql =
			COUNT("dead_letters", "raw",
			      "last_seen < $2::timestamptz AND (last_seen <= resolved_at OR " OPEN_TOO ") IS TRUE"),
	},
	{
		.table = PASS_OUTBOX,
		.name = "outbox",
		.done_as = "deliveries deleted",
		.first = PASS_FIRST_ID,
		.cutoff_sql = CUTOFF("outbox", "settled_at"),
		.range_sql = RANGE(OLD(
			"outbox", "settled_at",
			"state <> 'pending' AND state <> 'dead'") " UNION ALL "
								  "SELECT id FROM :schema.outbox WHERE state = 'dead' "
								  "AND settled_at < $1::timestamptz AND " OPEN_TOO),
		.step_sql = SQL_PURGE_OUTBOX,
		.count_sql = COUNT(
			"outbox", "outbox",
			"state <> 'pending' AND settled_at < $2::timestamptz AND (state <> 'dead' OR " OPEN_TOO ")"),
	},
	{
		.table = PASS_PROCESSED,
		.name = "processed_events",
		.done_as = "processed events forgotten",
		.first = "[\"\",\"\"]",
		.guard = &forgets_processed,
		.cutoff_sql = CUTOFF("processed_events", "processed_at"),
		.range_sql = "SELECT CASE WHEN pg_catalog.min(processed_at) < $1::timestamptz THEN $2::text END, NULL"
			     " FROM :schema.processed_events",
		.step_sql = SQL_PURGE_PROCESSED,
		.count_sql = count_processed_sql,
	},
	{
		.table = PASS_ACTIONS,
		.name = "dead_letter_actions",
		.done_as = "records of dead letters deleted",
		.first = PASS_FIRST_ID,
		.cutoff_sql = CUTOFF("dead_letter_actions", "done_at"),
		.range_sql = RANGE(OLD("dead_letter_actions", "done_at", "true")),
		.step_sql = STEP_ACTIONS("dead_letter_actions", LETTER_IS_GONE),
		.count_sql = COUNT("dead_letter_actions", "dead_letter_actions",
				   "done_at < $2::timestamptz AND " LETTER_IS_GONE),
	},
	{
		.table = PASS_ACTIONS,
		.name = "delivery_actions",
		.done_as = "records of deliveries deleted",
		.first = PASS_FIRST_ID,
		.cutoff_sql = CUTOFF("delivery_actions", "done_at"),
		.range_sql = RANGE(OLD("delivery_actions", "done_at", "true")),
		.step_sql = STEP_ACTIONS("delivery_actions", DELIVERY_IS_GONE),
		.count_sql = COUNT("delivery_actions", "delivery_actions",
				   "done_at < $2::timestamptz AND " DELIVERY_IS_GONE),
	},
};
