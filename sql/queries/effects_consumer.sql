-- Continues effects_given.sql for a consumer. An event that is new to it may have been stored by another one long ago,
-- so marks decide what is new. Rows are inserted before marks, so that handlers see the rows.
--
-- A BEFORE INSERT FOR EACH ROW trigger (of the table or a partition) can suppress a row; only if there is one, an event
-- is marked only if its row was inserted now or is visible. Without such a trigger this is not checked, because a row
-- that another transaction is inserting is neither.
, stored AS (
	INSERT INTO :schema.events (event_id, event_type, payload, source, received_at, event_time, instance)
	SELECT event_id, event_type, payload, source, received_at, event_time, instance FROM given
	ON CONFLICT (event_id) DO NOTHING
	RETURNING event_id
), keeper AS MATERIALIZED (
	%s AND t.tgtype & 7 = 7
), marked AS (
	INSERT INTO :schema.processed_events (consumer, event_id)
	SELECT %s, event_id FROM given
	WHERE (SELECT pg_catalog.count(*) FROM stored) >= 0 AND (
		NOT EXISTS (SELECT FROM keeper) OR event_id IN (SELECT event_id FROM stored)
		OR EXISTS (SELECT FROM :schema.events AS e WHERE e.event_id = given.event_id OFFSET 0)
	)
	ON CONFLICT (consumer, event_id) DO NOTHING
	RETURNING event_id
), fresh AS (
	SELECT event_id, event_type, payload FROM given JOIN marked USING (event_id)
)
