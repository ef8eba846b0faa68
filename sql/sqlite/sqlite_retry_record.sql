-- The same as retry_record.sql.
INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, db_user, instance_id, done_at)
SELECT d.id, d.digest, d.event_id, ?2, t.value ->> 'outcome', nullif(coalesce(?3, '')
	|| iif(?3 IS NULL OR t.value ->> 'why' IS NULL, '', ': ') || coalesce(t.value ->> 'why', ''), ''), wsonce_user(''), ?4,
	strftime('%Y-%m-%dT%H:%M:%f000Z')
FROM json_each(?1) AS t JOIN dead_letters AS d ON d.id = t.value ->> 'id';
UPDATE dead_letters AS d SET retried_at = NULL,
	resolved_at = iif(t.outcome = 'rejected', d.resolved_at, strftime('%Y-%m-%dT%H:%M:%f000Z')),
	resolution = iif(t.outcome = 'rejected', d.resolution, t.outcome)
FROM (SELECT value ->> 'id' AS id, value ->> 'outcome' AS outcome FROM json_each(?1)) AS t WHERE t.id = d.id
