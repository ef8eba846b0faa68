-- Returns the delivery with id $1: its fields in JSON, with the actions on it, its payload, and why the payload is left
-- out, or NULL. As in explain.sql, a payload whose numbers alone exceed 16 MiB of digits is not printed. The webhook-id is
-- the one that listeners send, also as the Idempotency-Key.
SELECT pg_catalog.json_build_object('id', id, 'target', target, 'event_id', event_id, 'event_type', event_type,
		'state', state, 'status', status, 'answer', answer, 'attempts', attempts,
		'created_at', pg_catalog.to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
		'due_at', CASE state WHEN 'pending'
			THEN pg_catalog.to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END,
		'settled_at', pg_catalog.to_char(settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
		'webhook_id', 'msg_' || pg_catalog.encode(substring(pg_catalog.sha256(pg_catalog.convert_to(target, 'UTF8')
			|| pg_catalog.decode('00', 'hex') || pg_catalog.convert_to(event_id, 'UTF8')) FROM 1 FOR 16), 'hex'),
		'actions', (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_strip_nulls(pg_catalog.json_build_object(
				'done_at', pg_catalog.to_char(done_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
				'action', action, 'db_user', db_user, 'instance_id', instance_id, 'note', note)) ORDER BY a.id), '[]')
			FROM :schema.delivery_actions AS a WHERE delivery_id = o.id)),
	CASE WHEN is_printable THEN pg_catalog.convert_to(payload::text, 'UTF8') END,
	CASE WHEN NOT is_printable THEN 'its numbers have more than 16 MiB of digits' END
FROM :schema.outbox AS o, LATERAL (SELECT (
	SELECT coalesce(pg_catalog.sum(pg_catalog.scale(n) + CASE WHEN pg_catalog.abs(n) < 1e50 THEN 0
		WHEN pg_catalog.abs(n) < 1e500 THEN 500 WHEN pg_catalog.abs(n) < 1e5000 THEN 5000 ELSE 131072 END), 0)
	FROM pg_catalog.jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') AS j,
		LATERAL (SELECT j::numeric) AS c (n)
) <= 16777216 OFFSET 0) AS p (is_printable)
WHERE id = $1::bigint
