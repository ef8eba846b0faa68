-- Resolves the dead letters whose events have been stored by now. $1: the name recorded for it.
WITH stored AS (
	SELECT d.id, d.digest, d.event_id
	FROM wsonce_suspects AS s JOIN wsonce_stored AS e ON e.event_id = s.id
		JOIN :schema.dead_letters AS d ON d.event_id = s.id
	WHERE s.found = 'open' AND d.consumer = pg_catalog.current_setting('wsonce.consumer')
		AND (d.resolved_at IS NULL OR d.last_seen > d.resolved_at)
	ORDER BY d.digest FOR UPDATE OF d
), closed AS (
	UPDATE :schema.dead_letters AS d SET resolved_at = pg_catalog.now(), resolution = 'persisted' FROM stored WHERE d.id = stored.id
)
INSERT INTO :schema.dead_letter_actions (letter_id, digest, event_id, action, outcome, note, instance_id)
SELECT id, digest, event_id, 'retry', 'persisted', 'audit --resubmit', $1::text FROM stored
