-- Returns the dead letter with id $1: its fields in JSON, with the actions on it, its message, and NULL. event_type is
-- the type that a profile has read. The digest of a consumer's letter is not that of its message, which is unknown if
-- only the head of the message is kept.
SELECT pg_catalog.json_build_object('id', id, 'consumer', consumer, 'sender', sender, 'source', source,
		'event_id', event_id, 'reason', CASE WHEN NOT is_open OR NOT CASE WHEN consumer = ''
			THEN EXISTS (SELECT FROM :schema.events AS e WHERE e.event_id = d.event_id OFFSET 0)
			ELSE EXISTS (SELECT FROM :schema.processed_events AS p
				WHERE p.consumer = d.consumer AND p.event_id = d.event_id OFFSET 0) END
			THEN reason ELSE 'a message with this event_id is stored; this one was refused: ' || reason END,
		'state', CASE WHEN is_open THEN 'open' ELSE 'resolved' END, 'resolution', resolution,
		'resolved_at', pg_catalog.to_char(resolved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'seen', seen,
		'first_seen', pg_catalog.to_char(first_seen AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
		'last_seen', pg_catalog.to_char(last_seen AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
		'bytes', pg_catalog.length(raw), 'is_whole', is_whole, 'instance_id', instance_id,
		'sha256', pg_catalog.encode(CASE WHEN consumer = '' AND event_type IS NULL THEN digest
			WHEN is_whole THEN pg_catalog.sha256(raw) END, 'hex'), 'event_type', event_type,
		'actions', (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_strip_nulls(pg_catalog.json_build_object(
				'done_at', pg_catalog.to_char(done_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
				'action', action, 'outcome', outcome, 'db_user', db_user, 'instance_id', instance_id, 'note', note))
				ORDER BY a.id), '[]')
			FROM :schema.dead_letter_actions AS a WHERE letter_id = d.id)),
	raw, NULL
FROM :schema.dead_letters AS d, LATERAL (SELECT resolved_at IS NULL OR last_seen > resolved_at,
	event_type IS NOT NULL OR digest = CASE consumer WHEN '' THEN pg_catalog.sha256(raw)
		ELSE pg_catalog.sha256(pg_catalog.sha256(raw) || pg_catalog.convert_to(consumer, 'UTF8')) END
) AS s (is_open, is_whole)
WHERE id = $1::bigint
