-- Continues effects_copied.sql for a consumer. There is no ON CONFLICT: one existing mark aborts the whole statement,
-- as an existing row does.
, marked AS (
	INSERT INTO :schema.processed_events (consumer, event_id) SELECT %s, event_id FROM fresh RETURNING 1
)
