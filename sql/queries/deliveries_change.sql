-- Retries, discards or reopens the deliveries with the ids $1 that are still in state $5, in the words of
-- deliveries_find.sql: $4 is the action, $2 a note, $3 this instance. The state is read under the row's lock, so only one
-- of two operators changes a row. Returns the id of each, and the id of its row in delivery_actions.
WITH locked AS (
	SELECT id FROM :schema.outbox WHERE id = ANY($1::bigint[])
		AND state = CASE $5::text WHEN 'open' THEN 'dead' WHEN 'resolved' THEN 'discarded' ELSE $5::text END
	ORDER BY id FOR UPDATE
), changed AS (
	UPDATE :schema.outbox AS o SET
		state = CASE $4::text WHEN 'retry' THEN 'pending' WHEN 'discard' THEN 'discarded' ELSE 'dead' END,
		attempts = CASE $4::text WHEN 'retry' THEN 0 ELSE attempts END,
		due_at = CASE $4::text WHEN 'retry' THEN pg_catalog.now() ELSE due_at END,
		settled_at = CASE WHEN $4::text = 'retry' THEN NULL WHEN $5::text = 'pending' THEN pg_catalog.now() ELSE settled_at END
	FROM locked WHERE o.id = locked.id RETURNING o.id, o.target, o.event_id
)
INSERT INTO :schema.delivery_actions (delivery_id, target, event_id, action, note, instance_id)
SELECT id, target, event_id, $4::text, $2::text, $3::text FROM changed RETURNING delivery_id, id
