-- The batch insert. $1 ids, sorted; $2 types; $3 payloads. Tells the ids that were new.
INSERT INTO events (event_id, event_type, payload)
SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[])
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id
