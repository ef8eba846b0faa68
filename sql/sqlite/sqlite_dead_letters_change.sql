-- The same as dead_letters_change.sql: records the action, then applies it to the same rows.
INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, db_user, instance_id, done_at)
SELECT id, digest, event_id, ?4, CASE ?4 WHEN 'discard' THEN 'discarded' ELSE 'open' END, ?2, wsonce_user(''), ?3,
	strftime('%Y-%m-%dT%H:%M:%f000Z')
FROM dead_letters
WHERE id IN (SELECT value FROM json_each('[' || trim(?1, '{}') || ']')) AND CASE ?5
	WHEN 'open' THEN (resolved_at IS NULL OR last_seen > resolved_at)
		AND (retried_at IS NULL OR retried_at < strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-5 minutes'))
	ELSE resolution = 'discarded' END;
UPDATE dead_letters SET resolved_at = CASE ?4 WHEN 'discard' THEN strftime('%Y-%m-%dT%H:%M:%f000Z') END,
	resolution = CASE ?4 WHEN 'discard' THEN 'discarded' END
WHERE id IN (SELECT value FROM json_each('[' || trim(?1, '{}') || ']')) AND CASE ?5
	WHEN 'open' THEN (resolved_at IS NULL OR last_seen > resolved_at)
		AND (retried_at IS NULL OR retried_at < strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-5 minutes'))
	ELSE resolution = 'discarded' END
RETURNING id, event_id, consumer
