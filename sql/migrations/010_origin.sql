-- The origin of an event. source: the name of a profile's source, a URL without its secrets, the name of a producer's
-- token or certificate, or ingest. instance: --instance-id of the listener that stored it. received_at: when that
-- listener received it, by its clock. event_time: when the event happened, if --time-pointer or a profile says where to
-- find it. Each may be NULL if unknown, as in the rows of older listeners.
--
-- Columns without a default change only the catalogue, so no row is written. The lock is not waited for, since others
-- would wait behind this; the migration is tried again instead (see postgres/schema.c).
SET LOCAL lock_timeout = '200ms';
ALTER TABLE :schema.events
	ADD COLUMN IF NOT EXISTS received_at TIMESTAMPTZ,
	ADD COLUMN IF NOT EXISTS event_time  TIMESTAMPTZ,
	ADD COLUMN IF NOT EXISTS source      VARCHAR,
	ADD COLUMN IF NOT EXISTS instance    VARCHAR;
