-- The same as dead_letters_show.sql.
SELECT json_object('id', id, 'consumer', consumer, 'sender', sender, 'source', source, 'event_id', event_id,
		'reason', CASE WHEN (resolved_at IS NULL OR last_seen > resolved_at)
			AND EXISTS (SELECT 1 FROM events AS e WHERE e.event_id = d.event_id)
			THEN 'a message with this event_id is stored; this one was refused: ' || reason ELSE reason END,
		'state', iif(resolved_at IS NULL OR last_seen > resolved_at, 'open', 'resolved'), 'resolution', resolution,
		'resolved_at', substr(resolved_at, 1, 23) || 'Z', 'seen', seen, 'first_seen', substr(first_seen, 1, 23) || 'Z',
		'last_seen', substr(last_seen, 1, 23) || 'Z', 'bytes', length(raw), 'is_whole',
		json(iif(event_type IS NOT NULL OR digest = wsonce_sha256(raw), 'true', 'false')), 'instance_id', instance_id,
		'sha256', lower(hex(iif(event_type IS NULL, digest, wsonce_sha256(raw)))), 'event_type', event_type,
		'actions', (SELECT json_group_array(json_patch('{}', json_object('done_at', substr(done_at, 1, 23) || 'Z',
				'action', action, 'outcome', outcome, 'db_user', db_user, 'instance_id', instance_id, 'note', note)))
			FROM (SELECT * FROM dead_letter_actions WHERE letter_id = d.id ORDER BY id))),
	raw, NULL
FROM dead_letters AS d WHERE id = CAST(?1 AS INTEGER)
