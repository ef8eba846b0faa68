-- Continues effects_given.sql without a consumer. RETURNING lists the new rows. They are in the table when the handler
-- runs.
, fresh AS (
	INSERT INTO :schema.events (event_id, event_type, payload, source, received_at, event_time, instance)
	SELECT event_id, event_type, payload, source, received_at, event_time, instance FROM given
	ON CONFLICT (event_id) DO NOTHING
	RETURNING event_id, event_type, payload
)
