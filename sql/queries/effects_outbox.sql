-- A part of the statements of effects.c: deliveries of the new events. A type that is NULL means every type, a key that is
-- NULL no conditions; effects_chosen.sql compares the others.
, posted AS (
	INSERT INTO :schema.outbox (target, event_id, event_type, payload)
	SELECT w.target, f.event_id, f.event_type, f.payload
	FROM %s AS f JOIN (VALUES %s) AS w (target, event_type, key)
		ON (w.event_type IS NULL OR w.event_type = f.event_type)%s
	RETURNING 1
)
