/* deliveries.c owns what `wsonce dead-letters ... --deliveries` knows of dead deliveries. The relay, which
 * delivers, is another's: here a row is looked at, made pending again or put away. */
#include "commands/deliveries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/dispatch.h"
#include "commands/letters.h"
#include "commands/json_out.h"
#include "commands/letter_record.h"

/* Why the last attempt failed. */
#define REASON "concat_ws(' ', status, answer)"

/* Those that are dead, or were before somebody did something about it, or are pending, which is asked for only with a
 * target. Few rows of the table are, so they are found by the index of the dead, the one of pending ones, and the
 * record of actions. */
#define FILTERED(of) \
	"SELECT id FROM :schema.outbox WHERE " of " AND ($1::bigint = 0" \
	"  OR coalesce(settled_at, created_at) >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond')" \
	" AND ($2::bigint = 0" \
	"  OR coalesce(settled_at, created_at) < timestamptz 'epoch' + $2::bigint * interval '1 microsecond')" \
	" AND ($3::text = '' OR pg_catalog.strpos(pg_catalog.lower(" REASON "), pg_catalog.lower($3::text)) > 0)" \
	" AND ($5::bigint[] IS NULL OR id = ANY($5::bigint[]))" \
	" AND ($6::text IS NULL OR target = $6::text) AND ($7::text IS NULL OR event_type = $7::text)" LETTERS_BETWEEN

#define CHOSEN \
	FILTERED("state = 'dead' AND $4::text IN ('open', 'all')") \
	" UNION ALL " FILTERED("state = 'pending' AND $4::text = 'pending'") " UNION ALL " FILTERED( \
		"state <> 'dead' AND $4::text IN ('resolved', 'all')" \
		" AND id IN (SELECT delivery_id FROM :schema.delivery_actions)")

const struct letter_choice deliveries_choice = {
	.oldest_sql = LETTERS_OLDEST(CHOSEN),
	.newest_sql = LETTERS_NEWEST(CHOSEN),
	.end_sql = "SELECT pg_catalog.max(id) FROM :schema.outbox",
};

static const char sql_list[] =
	"WITH ranked AS (SELECT id, target, event_id, status, attempts, coalesce(settled_at, created_at) AS at,"
	"  " REASON " AS reason, kind, row_number() OVER ("
	"   PARTITION BY target, kind ORDER BY coalesce(settled_at, created_at) DESC, id DESC) AS rank"
	"  FROM :schema.outbox, pg_catalog.concat_ws(' ', status, pg_catalog.regexp_replace(answer, " LETTERS_FOLD
	")) AS kind"
	"  WHERE id = ANY($1::bigint[])),"
	" grouped AS (SELECT target, pg_catalog.min(status) AS status, CASE WHEN pg_catalog.min(reason) = "
	"pg_catalog.max(reason) THEN pg_catalog.min(reason)"
	"  ELSE kind END AS reason, count(*) AS n, pg_catalog.sum(attempts)::bigint AS attempts,"
	"  pg_catalog.to_char(pg_catalog.min(at)" LETTERS_UTC
	") AS first, pg_catalog.to_char(pg_catalog.max(at)" LETTERS_UTC ") AS last,"
	"  pg_catalog.json_agg(pg_catalog.json_build_object('id', id, 'event_id', event_id, 'reason', reason,"
	"   'settled_at', pg_catalog.to_char(at" LETTERS_UTC
	")) ORDER BY rank) FILTER (WHERE rank <= $3::bigint) AS examples,"
	"  count(*) OVER () AS groups"
	"  FROM ranked GROUP BY target, kind ORDER BY 4 DESC, 1, 3 LIMIT $2::bigint)"
	" SELECT pg_catalog.concat_ws(': ', target, nullif(reason, '')), n, attempts, first, last, "
	"pg_catalog.json_build_object("
	"  'target', target, 'status', status, 'reason', reason, 'deliveries', n, 'attempts', attempts,"
	"  'first_settled', first, 'last_settled', last, 'examples', examples), groups"
	" FROM grouped ORDER BY n DESC, target, reason";

const struct letter_groups deliveries_groups = {
	.title = "dead deliveries",
	.name = "deliveries",
	.times = "tried",
	.sql = sql_list,
};

/* As explain.sql: 1e-16383 is 8 bytes of a message and 16,385 of text, and Postgres has memory for some thousands of
 * them. A payload whose numbers alone would print as more than 16 MiB is not printed. */
#define IS_PRINTABLE \
	"(SELECT coalesce(pg_catalog.sum(pg_catalog.scale(n) + CASE WHEN pg_catalog.abs(n) < 1e50 THEN 0" \
	" WHEN pg_catalog.abs(n) < 1e500 THEN 500 WHEN pg_catalog.abs(n) < 1e5000 THEN 5000 ELSE 131072 END), 0)" \
	" FROM pg_catalog.jsonb_path_query(payload, 'strict $.** ? (@.type() == \"number\")') AS j," \
	" LATERAL (SELECT j::numeric) AS c (n)) <= 16777216"

/* The webhook-id is the relay's, which is also the Idempotency-Key. */
static const char sql_show[] =
	"SELECT pg_catalog.json_build_object('id', id, 'target', target, 'event_id', event_id, 'event_type', "
	"event_type,"
	" 'state', state, 'status', status, 'answer', answer, 'attempts', attempts,"
	" 'created_at', pg_catalog.to_char(created_at" LETTERS_UTC "), 'due_at', CASE state WHEN 'pending'"
	"  THEN pg_catalog.to_char(due_at" LETTERS_UTC ") END, 'settled_at', pg_catalog.to_char(settled_at" LETTERS_UTC
	"),"
	" 'webhook_id', 'msg_' || pg_catalog.encode(substring(pg_catalog.sha256(pg_catalog.convert_to(target, 'UTF8') "
	"|| '\\x00'::bytea ||"
	"  pg_catalog.convert_to(event_id, 'UTF8')) FROM 1 FOR 16), 'hex')),"
	" (SELECT pg_catalog.json_agg(pg_catalog.json_strip_nulls(pg_catalog.json_build_object('done_at', "
	"pg_catalog.to_char(done_at" LETTERS_UTC "),"
	"   'action', action, 'db_user', db_user, 'instance_id', instance_id, 'note', note)) ORDER BY a.id)"
	"  FROM :schema.delivery_actions AS a WHERE delivery_id = o.id), CASE WHEN is_printable THEN payload END,"
	" is_printable FROM :schema.outbox AS o, LATERAL (SELECT " IS_PRINTABLE
	" OFFSET 0) AS p (is_printable) WHERE id = $1::bigint";

#define CHANGE(state_is, set, action) \
	"WITH locked AS (SELECT id FROM :schema.outbox WHERE id = ANY($1::bigint[]) AND state = '" state_is "'" \
	"  ORDER BY id FOR UPDATE)," \
	" changed AS (UPDATE :schema.outbox AS o SET " set " FROM locked" \
	"  WHERE o.id = locked.id RETURNING o.id, o.target, o.event_id)" \
	" INSERT INTO :schema.delivery_actions (delivery_id, target, event_id, action, note, instance_id)" \
	" SELECT id, target, event_id, '" action "', $2::text, $3::text FROM changed RETURNING delivery_id"

const char deliveries_retry_sql[] =
	CHANGE("dead", "state = 'pending', attempts = 0, due_at = now(), settled_at = NULL", "retry");

const char deliveries_discard_sql[] = CHANGE("dead", "state = 'discarded'", "discard");
const char deliveries_discard_pending_sql[] = CHANGE("pending", "state = 'discarded', settled_at = now()", "discard");

const char deliveries_reopen_sql[] = CHANGE("discarded", "state = 'dead'", "reopen");

/* A listener tells of itself once a minute. Whose consumer it works for does not matter: any that has the target
 * among its webhooks delivers to it. */
static const char sql_unattended[] =
	"SELECT pg_catalog.string_agg(target, ', ' ORDER BY target)"
	" FROM (SELECT DISTINCT target FROM :schema.delivery_actions WHERE id > $1::bigint AND db_user = session_user"
	"  AND action = 'retry') AS retried"
	" WHERE NOT EXISTS (SELECT FROM :schema.wsonce_listeners"
	"  WHERE target = ANY(targets) AND seen_at > now() - interval '3 minutes')";

int64_t deliveries_last_action(struct session *s)
{
	struct pg_result *rows = session_ask(s, "SELECT pg_catalog.max(id) FROM :schema.delivery_actions", 0, NULL);
	int64_t id = rows ? session_number(rows, 0, 0) : -1;

	session_drop(rows);
	return id;
}

void deliveries_warn(struct session *s, int64_t last_action)
{
	char id[24];
	const char *values[] = {id};
	struct pg_result *rows;

	snprintf(id, sizeof(id), "%" PRId64, last_action);
	rows = session_ask(s, sql_unattended, 1, values);
	if (rows && !session_is_null(rows, 0, 0))
		dispatch_fail("no running listener delivers to %s; these deliveries wait until one does",
			      session_text(rows, 0, 0));
	session_drop(rows);
}

#define UNPRINTABLE "its numbers have more than 16 MiB of digits"

static int print(const struct pg_result *row, bool is_json)
{
	bool is_printable = session_flag(row, 0, 3);
	const char *payload = session_is_null(row, 0, 2) ? NULL : session_text(row, 0, 2);
	struct letter_record record;
	struct json_out out;
	int failed = letter_record_open(&record, row);

	if (!failed && is_json) {
		json_out_open(&out);
		letter_record_json(&record, &out);
		json_out_member_text(&out, "payload", payload ? payload : "null");
		if (!is_printable)
			json_out_member(&out, "payload_left_out", json_string(UNPRINTABLE));
		json_out_close(&out);
	} else if (!failed) {
		letter_record_text(&record);
		putchar('\n');
		if (payload)
			json_out_text(payload, strlen(payload), false);
		else if (!is_printable)
			fputs("The payload is not printed: " UNPRINTABLE ".", stdout);
		putchar('\n');
	}
	letter_record_close(&record);
	return failed ? STATUS_FAILED : STATUS_FINE;
}

int deliveries_show(struct session *s, const char *id, bool is_raw, bool is_json)
{
	struct pg_result *row = session_ask(s, sql_show, 1, &id);
	int status = STATUS_FINE;

	if (!row)
		return STATUS_FAILED;
	if (!session_count(row))
		status = dispatch_fail("no delivery %s", id);
	else if (!session_flag(row, 0, 3) && is_raw)
		status = dispatch_fail("the payload of delivery %s is not printed: " UNPRINTABLE, id);
	else if (is_raw)
		fputs(session_text(row, 0, 2), stdout);
	else
		status = print(row, is_json);
	session_drop(row);
	return status;
}
