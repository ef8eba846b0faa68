-- Ends the join in effects_outbox.sql if webhooks have conditions. The text lists which events fit those of which webhook,
-- with commas: the webhook's key and the first half of the SHA-256 of the event's id. Postgres makes a hash table of it
-- once for the statement.
 AND (w.key IS NULL OR w.key || f.digest IN (SELECT pg_catalog.unnest(pg_catalog.string_to_array(%s, ','))))
