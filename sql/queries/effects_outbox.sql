-- A part of the statements of effects.c: deliveries of the new events. A type that is NULL means every type.
, posted AS (
	INSERT INTO :schema.outbox (target, event_id, event_type, payload)
	SELECT w.target, f.event_id, f.event_type, f.payload
	FROM fresh AS f JOIN LATERAL (VALUES %s) AS w (target, event_type, is_wanted)
		ON (w.event_type IS NULL OR w.event_type = f.event_type) AND w.is_wanted
	RETURNING 1
)
