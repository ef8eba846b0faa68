/* purge_tables.c owns what is particular to each table that wsonce purge goes through. How it goes is purge.c's. */
#include "commands/purge_tables.h"

/* clang-format off */
/* The rows of a table are in two parts, so that each is found by an index of sql/queries/indexes.sql: `first`, and
 * `second`, which goes only if `too` holds. A pass without a second part has NONE, false. */
#define NONE "false"

/* Does what nobody has dealt with go as well? */
#define OPEN_TOO "pg_catalog.current_setting('wsonce.open_too', true) = 'on'"

#define PART(columns, table, moment, part) \
	"SELECT " columns " FROM :schema." table " WHERE (" part ") AND " moment " IS NOT NULL"

/* Of those that may go, the N newest are counted by an index; only with the second part they are sorted. */
#define NTH(moment, rows) \
	"(SELECT " moment " FROM (" rows ") AS all_parts ORDER BY " moment \
	" DESC OFFSET greatest($2::bigint, 1) - 1 LIMIT 1)"
#define CUTOFF(table, moment, first, second, too) \
	"WITH c AS MATERIALIZED (SELECT coalesce(greatest(now() - $1::bigint * interval '1 second', CASE" \
	" WHEN $2::bigint = 0 THEN 'infinity'" \
	" WHEN $2::bigint > 0 AND " too " THEN " \
	NTH(moment, PART(moment, table, moment, first) " UNION ALL " PART(moment, table, moment, second)) \
	" WHEN $2::bigint > 0 THEN " NTH(moment, PART(moment, table, moment, first)) \
	" END), '-infinity') AS cutoff)" \
	" SELECT cutoff, CASE WHEN pg_catalog.isfinite(cutoff)" \
	" THEN pg_catalog.floor(extract(epoch FROM now() - cutoff)) ELSE 0 END FROM c"

/* Finds by the indexes that nothing goes, or what goes: the oldest row that may is asked for first, since that takes no
 * estimate of how many are older. The sum keeps the planner from looking for the lowest id, row by row, in the primary
 * key. */
#define OLD_OF(table, moment, part) \
	PART("id", table, moment, part) " AND " moment " < $1::timestamptz AND $1::timestamptz >" \
	" (SELECT pg_catalog.min(" moment ") FROM :schema." table " WHERE " part ")"
#define RANGE(table, moment, first, second, too) \
	"SELECT pg_catalog.min(id + 0) - 1, pg_catalog.max(id + 0) FROM (" \
	OLD_OF(table, moment, first) " UNION ALL " OLD_OF(table, moment, second) " AND " too \
	") AS old WHERE $2::text <> ''"

/* A range of keys is read in the order of their index, which for ids is that of the table, in partitions too. What is
 * changed is read so as well: a join by the keys of a batch reads a page for each. */
#define LOOK(table, key, is_after, last, size, is_old) \
	"WITH step AS MATERIALIZED (SELECT " key ", pg_catalog.pg_column_size(" size ") AS size," \
	" (" is_old ") IS TRUE AS is_old FROM :schema." table " AS t WHERE " is_after \
	" ORDER BY " key " LIMIT $4::bigint)," \
	" old AS MATERIALIZED (SELECT * FROM step WHERE is_old LIMIT $3::bigint)" \
	" SELECT count(*), pg_catalog.sum(size), CASE WHEN count(*) = $3::bigint" \
	" THEN (SELECT " last " FROM old) ELSE (SELECT " last " FROM step) END FROM old"
#define CHANGE(table, key, keys, verb, is_old) \
	"WITH free AS MATERIALIZED (SELECT " key " FROM :schema." table " AS t" \
	" WHERE " keys " AND (" is_old ") IS TRUE FOR UPDATE SKIP LOCKED)," \
	" done AS (" verb " WHERE " keys " AND ((" key ") IN (SELECT " key " FROM free)) IS TRUE RETURNING 1)" \
	" SELECT count(*) FROM done"

/* The four statements of a table with ids. */
#define BY_ID(table, moment, size, verb, first, second, too, is_old) { \
	.cutoff = CUTOFF(table, moment, first, second, too), \
	.range = RANGE(table, moment, first, second, too), \
	.look = LOOK(table, "id", "id > $1::bigint", "pg_catalog.max(id)", size, is_old), \
	.change = CHANGE(table, "id", "id > $1::bigint AND id <= $3::bigint", verb, is_old), \
}
#define TABLE(table, moment, size, verb, first, second, too) \
	BY_ID(table, moment, size, verb, first, second, too, \
	      moment " < $2::timestamptz AND ((" first ") OR ((" second ") AND " too "))")

/* What somebody did to a row, once the row is gone: as long as it is there, show tells what was done. */
#define ACTIONS(actions, table, id_of) \
	BY_ID(actions, "done_at", "t", "DELETE FROM :schema." actions, "true", NONE, NONE, \
	      "done_at < $2::timestamptz AND NOT EXISTS" \
	      " (SELECT FROM :schema." table " AS o WHERE o.id = t." id_of ")")

/* A key of two columns, as [consumer, event_id] in JSON. */
#define PAIR         "consumer, event_id"
#define PAIR_IN(key) "(" key "::json->>0, " key "::json->>1)"
#define AFTER_PAIR   "(" PAIR ") > " PAIR_IN("$1")
#define LAST_PAIR \
	"(pg_catalog.array_agg(pg_catalog.json_build_array(" PAIR ") ORDER BY consumer DESC, event_id DESC))[1]"
#define PROCESSED_IS_OLD "processed_at < $2::timestamptz"

/* --- the same of a file --- */

#define LITE_NOW(change) "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'" change ")"
#define LITE_CUTOFF(table, moment) \
	"SELECT cutoff, CASE WHEN cutoff LIKE '2%' THEN unixepoch('now') - unixepoch(cutoff) ELSE 0 END FROM (" \
	"SELECT coalesce(max(c), '-infinity') AS cutoff FROM (" \
	"SELECT " LITE_NOW(", '-' || ?1 || ' seconds'") " AS c WHERE ?1 IS NOT NULL" \
	" UNION ALL SELECT 'infinity' WHERE ?2 = '0'" \
	" UNION ALL SELECT (SELECT " moment " FROM " table " WHERE " moment " IS NOT NULL ORDER BY " moment \
	" DESC LIMIT 1 OFFSET CAST(?2 AS INTEGER) - 1) WHERE CAST(?2 AS INTEGER) > 0))"
#define LITE_STEP(table) " FROM " table " WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?4 AS INTEGER)"
#define LITE_LOOK(table, size, is_old) \
	"SELECT count(*), coalesce(sum(size), 0), iif(count(*) = CAST(?3 AS INTEGER), max(id)," \
	" (SELECT max(id) FROM (SELECT id" LITE_STEP(table) "))) FROM (SELECT * FROM (" \
	"SELECT id, length(CAST(" size " AS BLOB)) AS size, " is_old " AS is_old" LITE_STEP(table) \
	") WHERE is_old LIMIT CAST(?3 AS INTEGER))"
#define LITE(table, moment, size, verb, goes) { \
	.cutoff = LITE_CUTOFF(table, moment), \
	.range = "SELECT min(id) - 1, max(id) FROM " table " WHERE " moment " < ?1 AND " goes " AND ?2 <> ''", \
	.look = LITE_LOOK(table, size, moment " < ?2 AND " goes), \
	.change = verb " WHERE id > CAST(?1 AS INTEGER) AND id <= CAST(?3 AS INTEGER) AND " moment " < ?2" \
		  " AND " goes "; SELECT changes()", \
}
#define LITE_LETTERS \
	"(coalesce(last_seen <= resolved_at, false) OR EXISTS" \
	" (SELECT 1 FROM sqlite_temp_schema WHERE name = 'wsonce_open_too'))"
/* clang-format on */

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

/* --- the tables --- */

const struct pass purge_tables[PURGE_TABLES] = {
	{
		.table = PASS_EVENTS,
		.rows = PASS_ROWS_STAY,
		.name = "payloads",
		.done_as = "payloads removed",
		.first = PASS_FIRST_ID,
		.postgres = TABLE("events", "processed_at", "payload",
				  "UPDATE :schema.events SET payload = 'null', purged_at = now()", "purged_at IS NULL",
				  NONE, NONE),
		.file = LITE("events", "processed_at", "payload",
			     "UPDATE events SET payload = 'null', purged_at = " LITE_NOW(""), "purged_at IS NULL"),
	},
	{
		.table = PASS_EVENTS,
		.rows = PASS_ROWS_GO,
		.name = "rows",
		.done_as = "rows deleted",
		.first = PASS_FIRST_ID,
		.guard = &deletes_rows,
		.postgres = TABLE("events", "processed_at", "payload", "DELETE FROM :schema.events",
				  "purged_at IS NULL", "purged_at IS NOT NULL", "true"),
		.file = LITE("events", "processed_at", "payload", "DELETE FROM events", "true"),
	},
	{
		.table = PASS_LETTERS,
		.name = "dead_letters",
		.done_as = "dead letters deleted",
		.first = PASS_FIRST_ID,
		.marked = "SELECT event_id FROM :schema.dead_letters WHERE id > $1::bigint AND id "
			  "<= $3::bigint AND event_id IS NOT NULL AND last_seen < $2::timestamptz AND last_seen > "
			  "now() - interval '1 hour' - interval '1 second' * (SELECT "
			  "coalesce(pg_catalog.max(dedup_window_s), 0) FROM :schema.wsonce_listeners)",
		.postgres =
			TABLE("dead_letters", "last_seen", "raw", "DELETE FROM :schema.dead_letters",
			      "last_seen <= resolved_at", "resolved_at IS NULL OR last_seen > resolved_at", OPEN_TOO),
		.file = LITE("dead_letters", "last_seen", "raw", "DELETE FROM dead_letters", LITE_LETTERS),
	},
	{
		.table = PASS_OUTBOX,
		.name = "outbox",
		.done_as = "deliveries deleted",
		.first = PASS_FIRST_ID,
		.postgres = TABLE("outbox", "settled_at", "t", "DELETE FROM :schema.outbox",
				  "state <> 'pending' AND state <> 'dead'", "state = 'dead'", OPEN_TOO),
	},
	{
		.table = PASS_PROCESSED,
		.name = "processed_events",
		.done_as = "processed events forgotten",
		.first = "[\"\",\"\"]",
		.guard = &forgets_processed,
		.postgres =
			{
				.cutoff = CUTOFF("processed_events", "processed_at", "true", NONE, NONE),
				.range = "SELECT CASE WHEN pg_catalog.min(processed_at) < $1::timestamptz THEN "
					 "$2::text END, NULL FROM :schema.processed_events",
				.look = LOOK("processed_events", PAIR, AFTER_PAIR, LAST_PAIR, "t", PROCESSED_IS_OLD),
				.change =
					CHANGE("processed_events", PAIR, AFTER_PAIR " AND (" PAIR ") <= " PAIR_IN("$3"),
					       "DELETE FROM :schema.processed_events", PROCESSED_IS_OLD),
			},
	},
	{
		.table = PASS_ACTIONS,
		.name = "dead_letter_actions",
		.done_as = "records of dead letters deleted",
		.first = PASS_FIRST_ID,
		.postgres = ACTIONS("dead_letter_actions", "dead_letters", "letter_id"),
		.file = LITE("dead_letter_actions", "done_at", "note", "DELETE FROM dead_letter_actions",
			     "NOT EXISTS (SELECT 1 FROM dead_letters AS t WHERE t.id = letter_id)"),
	},
	{
		.table = PASS_ACTIONS,
		.name = "delivery_actions",
		.done_as = "records of deliveries deleted",
		.first = PASS_FIRST_ID,
		.postgres = ACTIONS("delivery_actions", "outbox", "delivery_id"),
	},
};
