-- What each table knows about event $1. wsonce explain runs each part separately. Returns microseconds since 1970, what
-- happened then, and an object of details. A payload whose numbers alone exceed 16 MiB of digits is not printed to be
-- measured: bytes is left out.
-- table events
SELECT (extract(epoch FROM at) * 1000000)::bigint, what, pg_catalog.json_strip_nulls(fields)
FROM :schema.events AS e CROSS JOIN LATERAL (VALUES
	(event_time, 'happened', '{}'::json),
	(received_at, 'received', pg_catalog.json_build_object('source', source, 'listener', instance)),
	(processed_at, 'stored', pg_catalog.json_build_object('row', id, 'type', event_type, 'bytes', CASE WHEN (
			SELECT coalesce(pg_catalog.sum(pg_catalog.scale(n) + CASE WHEN pg_catalog.abs(n) < 1e50 THEN 0
				WHEN pg_catalog.abs(n) < 1e500 THEN 500 WHEN pg_catalog.abs(n) < 1e5000 THEN 5000 ELSE 131072 END), 0)
			FROM pg_catalog.jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') AS j,
				LATERAL (SELECT j::numeric) AS c (n)
		) <= 16777216 THEN pg_catalog.octet_length(payload::text) END, 'source', CASE WHEN received_at IS NULL THEN source END,
		'listener', CASE WHEN received_at IS NULL THEN instance END)),
	(purged_at, 'payload purged', '{}')
) AS m (at, what, fields) WHERE event_id = $1::text AND at IS NOT NULL
-- table line_minutes
-- Which lines of the event's source had it: see sql/migrations/015_line_minutes.sql. A row may cover several minutes; then
-- those of the other lines are added up. Each consumer's lines are judged alone. A line had the event if it had all events
-- of these minutes. Their number is that of the rows in events, since a listener that was killed may have stored more than
-- it reported. Rows are found by the indexes of processed_at; nothing is said about a row that was stored more than two
-- minutes later.
WITH event AS MATERIALIZED (
	SELECT source, received_at, pg_catalog.date_trunc('minute', received_at, 'UTC') AS minute
	FROM :schema.events WHERE event_id = $1::text AND received_at IS NOT NULL
), span AS MATERIALIZED (
	SELECT e.*, since, since + n * interval '1 minute' AS until
	FROM event AS e, LATERAL (
		SELECT coalesce(pg_catalog.max(minutes), 1) AS n FROM :schema.line_minutes AS m
		WHERE pg_catalog.regexp_replace(m.source, '^consumer:[^:]*:', '') = e.source AND m.minute <= e.minute AND m.minute > e.minute - interval '1 hour'
			AND m.minute + coalesce(minutes, 1) * interval '1 minute' > e.minute
	) AS longest, LATERAL (
		SELECT pg_catalog.to_timestamp(pg_catalog.div(extract(epoch FROM e.minute)::bigint, 60 * n) * 60 * n) AS since
	) AS begin
), lines AS MATERIALIZED (
	SELECT s.received_at, m.source AS fleet, m.listener, pg_catalog.sum(m.received) AS received,
		pg_catalog.sum(m.received_sum) AS received_sum, pg_catalog.sum(m.stored) AS stored,
		pg_catalog.sum(m.stored_sum) AS stored_sum, coalesce(pg_catalog.sum(m.unknown), 0) AS unknown
	FROM span AS s JOIN :schema.line_minutes AS m ON pg_catalog.regexp_replace(m.source, '^consumer:[^:]*:', '') = s.source
		AND m.minute >= s.since AND m.minute < s.until
	GROUP BY 1, 2, 3
), total AS MATERIALIZED (
	SELECT fleet, pg_catalog.sum(stored) AS stored, pg_catalog.sum(stored_sum) AS stored_sum, pg_catalog.sum(stored) = (
		SELECT pg_catalog.count(*) FROM span AS s, LATERAL (
			SELECT source, received_at FROM :schema.events WHERE purged_at IS NULL
				AND processed_at >= s.since - interval '1 minute' AND processed_at < s.until + interval '2 minutes'
			UNION ALL
			SELECT source, received_at FROM :schema.events WHERE purged_at IS NOT NULL
				AND processed_at >= s.since - interval '1 minute' AND processed_at < s.until + interval '2 minutes'
		) AS e WHERE e.source = s.source AND e.received_at >= s.since AND e.received_at < s.until
	) AS is_whole FROM lines GROUP BY fleet
)
SELECT (extract(epoch FROM received_at) * 1000000)::bigint, CASE
	WHEN is_whole AND received = t.stored AND (received_sum - t.stored_sum) % 18446744073709551616 = 0
		THEN 'copy on a line'
	WHEN received = 0 AND unknown = 0 THEN 'no copy on a line'
	ELSE 'copy on a line?' END,
	pg_catalog.json_build_object('line', pg_catalog.regexp_replace(listener, '[.][0-9a-f]{16}', ''),
		'received', received, 'of', t.stored)
FROM lines JOIN total AS t USING (fleet) ORDER BY listener
-- table processed_events
WITH RECURSIVE consumers AS (
	(SELECT consumer FROM :schema.processed_events ORDER BY consumer LIMIT 1)
	UNION ALL
	SELECT (SELECT p.consumer FROM :schema.processed_events AS p WHERE p.consumer > c.consumer ORDER BY p.consumer LIMIT 1)
	FROM consumers AS c WHERE c.consumer IS NOT NULL
)
SELECT (extract(epoch FROM processed_at) * 1000000)::bigint, 'processed',
	pg_catalog.json_build_object('consumer', p.consumer)
FROM consumers AS c JOIN :schema.processed_events AS p ON p.consumer = c.consumer AND p.event_id = $1::text
-- table dead_letters
SELECT (extract(epoch FROM at) * 1000000)::bigint, what, pg_catalog.json_strip_nulls(fields)
FROM (SELECT * FROM :schema.dead_letters WHERE event_id = $1::text ORDER BY id LIMIT 1000) AS l
CROSS JOIN LATERAL (VALUES
	(first_seen, 'dead letter', pg_catalog.json_build_object('letter', id, 'listener', instance_id, 'source', source,
		'sender', sender, 'consumer', nullif(consumer, ''), 'bytes', pg_catalog.octet_length(raw), 'reason', reason)),
	(CASE WHEN seen > 1 THEN last_seen END, 'dead letter again', pg_catalog.json_build_object('letter', id, 'seen', seen)),
	(retried_at, 'letter retried', pg_catalog.json_build_object('letter', id)),
	(resolved_at, 'letter ' || coalesce(resolution, 'resolved'), pg_catalog.json_build_object('letter', id))
) AS m (at, what, fields) WHERE at IS NOT NULL
-- table dead_letter_actions
SELECT (extract(epoch FROM done_at) * 1000000)::bigint, 'action ' || action, pg_catalog.json_strip_nulls(
	pg_catalog.json_build_object('letter', letter_id, 'outcome', outcome, 'by', db_user, 'as', instance_id, 'note', note))
FROM :schema.dead_letter_actions WHERE event_id = $1::text ORDER BY id LIMIT 1000
-- table outbox
SELECT (extract(epoch FROM at) * 1000000)::bigint, what, pg_catalog.json_strip_nulls(fields)
FROM (SELECT * FROM :schema.outbox WHERE event_id = $1::text ORDER BY id LIMIT 1000) AS o
CROSS JOIN LATERAL (VALUES
	(created_at, 'delivery made', pg_catalog.json_build_object('delivery', id, 'target', target)),
	(CASE WHEN state = 'pending' THEN due_at END, 'delivery due', pg_catalog.json_build_object('delivery', id,
		'target', target, 'attempts', attempts, 'status', status, 'answer', answer)),
	(settled_at, 'delivery ' || state, pg_catalog.json_build_object('delivery', id, 'target', target, 'attempts',
		attempts, 'status', status, 'answer', answer))
) AS m (at, what, fields) WHERE at IS NOT NULL
-- table delivery_actions
SELECT (extract(epoch FROM done_at) * 1000000)::bigint, 'action ' || action, pg_catalog.json_strip_nulls(
	pg_catalog.json_build_object('delivery', delivery_id, 'target', target, 'by', db_user, 'as', instance_id, 'note', note))
FROM :schema.delivery_actions WHERE event_id = $1::text ORDER BY id LIMIT 1000
