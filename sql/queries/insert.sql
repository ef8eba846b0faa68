-- The batch insert. $1 ids, sorted; $2 types; $3 payloads. Tells the epoch (see epoch.sql) and the ids that were new.
WITH fresh AS (
	INSERT INTO :schema.events (event_id, event_type, payload)
	SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[])
	ON CONFLICT (event_id) DO NOTHING
	RETURNING event_id
)
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch UNION ALL SELECT event_id FROM fresh
