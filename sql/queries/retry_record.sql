-- Records outcomes of retried dead letters: $1 is a JSON array of objects with id, outcome (persisted, duplicate or
-- rejected) and why, $2 the action, $3 a note, $4 this instance. A letter that is rejected again stays open. Locks in the
-- order of write_dead_letters.sql.
WITH told AS (
	SELECT * FROM pg_catalog.jsonb_to_recordset($1::jsonb) AS t(id bigint, outcome text, why text)
), locked AS (
	SELECT d.id, d.digest, d.event_id, told.outcome, told.why
	FROM :schema.dead_letters AS d JOIN told USING (id) ORDER BY d.digest FOR UPDATE OF d
), stored AS (
	UPDATE :schema.dead_letters AS d SET retried_at = NULL,
		resolved_at = CASE WHEN locked.outcome = 'rejected' THEN d.resolved_at ELSE pg_catalog.now() END,
		resolution = CASE WHEN locked.outcome = 'rejected' THEN d.resolution ELSE locked.outcome END
	FROM locked WHERE d.id = locked.id
)
INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)
SELECT id, digest, event_id, $2::text, outcome, pg_catalog.concat_ws(': ', $3::text, why), $4::text FROM locked
