-- The same as sql/queries/audit_close.sql. ?1: the name recorded for it.
CREATE TEMPORARY TABLE wsonce_closed AS
	SELECT l.id FROM wsonce_suspects AS s JOIN wsonce_letters AS l ON l.event_id = s.id
	WHERE s.found = 'open' AND l.grade = 4 AND EXISTS (SELECT 1 FROM wsonce_stored AS e WHERE e.event_id = s.id);
INSERT INTO dead_letter_actions (letter_id, digest, event_id, action, outcome, note, db_user, instance_id, done_at)
	SELECT id, digest, event_id, 'retry', 'persisted', 'audit --resubmit', wsonce_user(''), ?1,
		strftime('%Y-%m-%dT%H:%M:%f000Z')
	FROM dead_letters WHERE id IN (SELECT id FROM wsonce_closed);
UPDATE dead_letters SET resolved_at = strftime('%Y-%m-%dT%H:%M:%f000Z'), resolution = 'persisted'
	WHERE id IN (SELECT id FROM wsonce_closed);
