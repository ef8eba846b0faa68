-- Discards or reopens the dead letters with the ids $1 that are still in state $5 (open or resolved): $4 is the action
-- (discard or reopen), $2 a note, $3 this instance. Skips letters that a retry has taken up within five minutes. Locks in
-- the order of write_dead_letters.sql, so that they cannot deadlock. Returns id, event id and consumer of each.
WITH locked AS (
	SELECT id FROM :schema.dead_letters
	WHERE id = ANY($1::bigint[]) AND CASE $5::text
		WHEN 'open' THEN (resolved_at IS NULL OR last_seen > resolved_at)
			AND (retried_at IS NULL OR retried_at < pg_catalog.now() - interval '5 minutes')
		ELSE resolution = 'discarded' END
	ORDER BY digest FOR UPDATE
), changed AS (
	UPDATE :schema.dead_letters AS d SET resolved_at = CASE $4::text WHEN 'discard' THEN pg_catalog.now() END,
		resolution = CASE $4::text WHEN 'discard' THEN 'discarded' END
	FROM locked WHERE d.id = locked.id RETURNING d.id, d.digest, d.event_id, d.consumer
), noted AS (
	INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)
	SELECT id, digest, event_id, $4::text, CASE $4::text WHEN 'discard' THEN 'discarded' ELSE 'open' END, $2::text,
		$3::text
	FROM changed
)
SELECT id, event_id, consumer FROM changed
