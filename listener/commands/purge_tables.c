/* purge_tables.c owns the tables that wsonce purge goes through. purge.c runs the statements that it makes. */
#include "commands/purge_tables.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "purge_cutoff.sql.h"
#include "purge_range.sql.h"
#include "purge_range_pair.sql.h"
#include "purge_step.sql.h"
#include "sqlite_purge_cutoff.sql.h"
#include "sqlite_purge_range.sql.h"
#include "sqlite_purge_step.sql.h"

/* The event of a deleted letter, if its dead mark may still be in Redis: marks are not older than the listeners' dedup
 * window, and the hour is for clocks that differ. */
#define MARKED \
	"CASE WHEN last_seen > pg_catalog.now() - interval '1 hour' - interval '1 second' * (SELECT" \
	" coalesce(pg_catalog.max(dedup_window_s), 0) FROM :schema.wsonce_listeners) THEN event_id END AS event_id, " \
	"consumer"

/* A key that is not an id, in JSON: [consumer, event_id]. Also the last one of some rows. */
#define PAIR "consumer, event_id"
#define LAST_PAIR \
	"(pg_catalog.array_agg(pg_catalog.json_build_array(" PAIR ") ORDER BY consumer DESC, event_id DESC))[1]"

/* Keeps the actions on rows that still exist, since dead-letters show prints them. */
#define GONE(table, id) " AND NOT EXISTS (SELECT FROM :schema." table " AS o WHERE o.id = t." id ")"

static const struct retention_guard_deletion deletes_rows = {
	.option = "--delete-rows",
	.age = "--older-than",
	.harm = "A late copy of an event whose row is gone would be stored again. Without --delete-rows the ids stay "
		"and only payloads go; or",
};

static const struct retention_guard_deletion forgets_processed = {
	.option = "--processed-older-than or --processed-keep",
	.age = "the age of the youngest",
	.harm = "A late copy of an event that is no longer known to be processed would be processed again:",
};

/* Returns a statement, on the heap, with words such as {table} replaced by those of a pass. */
static char *expand(const char *sql, const struct pass *p, bool is_open_too)
{
	bool is_id = strcmp(p->first, PASS_FIRST_ID) == 0, goes = !p->is_other_open || is_open_too;
	const char *const words[][2] = {
		{"table", p->from},
		{"moment", p->moment},
		{"size", p->size},
		{"change", p->change},
		{"part", p->part},
		{"other", p->other ? p->other : "false"},
		{"if_other", p->other && goes ? "true" : "false"},
		{"and", p->and ? p->and : ""},
		{"marked", p->marked ? p->marked : "NULL::text AS event_id, NULL::text AS consumer"},
		{"file_change", p->file_change},
		{"file_part", goes && p->is_other_open ? "true" : p->file_part},
		{"key", is_id ? "id" : PAIR},
		{"after", is_id ? "id > $1::bigint" : "(" PAIR ") > ($1::json->>0, $1::json->>1)"},
		{"up_to", is_id ? "id <= (SELECT last FROM looked)"
				: "(" PAIR ") <= ((SELECT last->>0 FROM looked), (SELECT last->>1 FROM looked))"},
		{"last", is_id ? "pg_catalog.max(id)" : LAST_PAIR},
	};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert(out);
	for (const char *at; (at = strchr(sql, '{')); sql = strchr(at, '}') + 1) {
		size_t i = 0, n = strcspn(at + 1, "}");

		while (strncmp(words[i][0], at + 1, n) != 0 || words[i][0][n])
			i++; /* the statements contain no other words in braces */
		fprintf(out, "%.*s%s", (int)(at - sql), sql, words[i][1]);
	}
	fputs(sql, out);
	fclose(out);
	return text;
}

struct pass_sql purge_sql(const struct pass *p, bool is_file, bool is_open_too)
{
	const char *range = strcmp(p->first, PASS_FIRST_ID) == 0 ? SQL_PURGE_RANGE : SQL_PURGE_RANGE_PAIR;

	if (is_file)
		return (struct pass_sql){expand(SQL_SQLITE_PURGE_CUTOFF, p, is_open_too),
					 expand(SQL_SQLITE_PURGE_RANGE, p, is_open_too),
					 expand(SQL_SQLITE_PURGE_STEP, p, is_open_too)};
	return (struct pass_sql){expand(SQL_PURGE_CUTOFF, p, is_open_too), expand(range, p, is_open_too),
				 expand(SQL_PURGE_STEP, p, is_open_too)};
}

void purge_sql_free(struct pass_sql *sql)
{
	free(sql->cutoff);
	free(sql->range);
	free(sql->step);
}

/* clang-format off */
const struct pass purge_tables[PURGE_TABLES] = {
	{
		.table = PASS_EVENTS, .rows = PASS_ROWS_STAY, .name = "payloads", .done_as = "payloads removed",
		.first = PASS_FIRST_ID, .from = "events", .moment = "processed_at", .size = "payload",
		.change = "UPDATE :schema.events SET payload = 'null', purged_at = pg_catalog.now()", .part = "purged_at IS NULL",
		.file_change = "UPDATE events SET payload = 'null', purged_at = strftime('%Y-%m-%dT%H:%M:%f000Z')",
		.file_part = "purged_at IS NULL",
	},
	{
		.table = PASS_EVENTS, .rows = PASS_ROWS_GO, .name = "rows", .done_as = "rows deleted",
		.first = PASS_FIRST_ID, .from = "events", .moment = "processed_at", .size = "payload",
		.guard = &deletes_rows, .change = "DELETE FROM :schema.events", .part = "purged_at IS NULL",
		.other = "purged_at IS NOT NULL",
		.file_change = "DELETE FROM events", .file_part = "true",
	},
	{
		.table = PASS_DEAD_LETTERS, .name = "dead_letters", .done_as = "dead letters deleted",
		.first = PASS_FIRST_ID, .from = "dead_letters", .moment = "last_seen", .size = "raw",
		.change = "DELETE FROM :schema.dead_letters", .part = "last_seen <= resolved_at",
		.other = "resolved_at IS NULL OR last_seen > resolved_at", .is_other_open = true, .marked = MARKED,
		.file_change = "DELETE FROM dead_letters", .file_part = "coalesce(last_seen <= resolved_at, false)",
	},
	{
		.table = PASS_OUTBOX, .name = "outbox", .done_as = "deliveries deleted",
		.first = PASS_FIRST_ID, .from = "outbox", .moment = "settled_at", .size = "t",
		.change = "DELETE FROM :schema.outbox", .part = "state <> 'pending' AND state <> 'dead'",
		.other = "state = 'dead'", .is_other_open = true,
	},
	{
		.table = PASS_PROCESSED, .name = "processed_events", .done_as = "processed events forgotten",
		.first = "[\"\",\"\"]", .from = "processed_events", .moment = "processed_at", .size = "t",
		.guard = &forgets_processed, .change = "DELETE FROM :schema.processed_events", .part = "true",
	},
	{
		.table = PASS_ACTIONS, .name = "dead_letter_actions", .done_as = "records of dead letters deleted",
		.first = PASS_FIRST_ID, .from = "dead_letter_actions", .moment = "done_at", .size = "note",
		.change = "DELETE FROM :schema.dead_letter_actions", .part = "true",
		.and = GONE("dead_letters", "letter_id"), .file_change = "DELETE FROM dead_letter_actions",
		.file_part = "NOT EXISTS (SELECT 1 FROM dead_letters AS t WHERE t.id = letter_id)",
	},
	{
		.table = PASS_ACTIONS, .name = "delivery_actions", .done_as = "records of deliveries deleted",
		.first = PASS_FIRST_ID, .from = "delivery_actions", .moment = "done_at", .size = "t",
		.change = "DELETE FROM :schema.delivery_actions", .part = "true", .and = GONE("outbox", "delivery_id"),
	},
};
/* clang-format on */
