-- Ends the join in effects_outbox.sql if webhooks have conditions. The text lists which events fit those of which webhook,
-- with commas: the webhook's key and the event's id in hex. Postgres makes a hash table of it once for the statement.
 AND (w.key IS NULL OR w.key || pg_catalog.encode(pg_catalog.convert_to(f.event_id, 'UTF8'), 'hex')
	IN (SELECT unnest(pg_catalog.string_to_array(%s, ','))))
