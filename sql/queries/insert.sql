-- Inserts a batch. $1 ids; $2 types; $3 payloads; $4 sources; $5 times received; $6 times of the events (NULL
-- if there is none); $7 this instance. Returns the epoch (see epoch.sql) and the ids that were new.
--
-- The ids are returned in ASCII, because an AFTER trigger or a handler may change client_encoding before they are sent.
WITH fresh AS (
	INSERT INTO :schema.events (event_id, event_type, payload, source, received_at, event_time, instance)
	SELECT g.*, $7::text
	FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::text[], $5::timestamptz[], $6::timestamptz[]) AS g
	ON CONFLICT (event_id) DO NOTHING
	RETURNING event_id
)
:epoch UNION ALL
SELECT pg_catalog.encode(pg_catalog.convert_to(event_id, 'UTF8'), 'escape') FROM fresh
