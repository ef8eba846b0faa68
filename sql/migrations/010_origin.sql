-- Where a row came from. source: the name of a profile's source, a URL without its secrets, the name of a producer's token
-- or certificate, or ingest; instance: --instance-id of the listener that stored it; received_at: when that one received
-- the event, by its clock; event_time: when the event happened, where --time-pointer or a profile says where that is. All
-- may be NULL: in the rows of older listeners, which run on beside this schema, and where it is not known.
--
-- Columns without a default are lines in the catalogue, so no row is written. The lock is refused rather than waited for,
-- since others would wait behind it, and is asked for again (see postgres/schema.c).
SET LOCAL lock_timeout = '200ms';
ALTER TABLE :schema.events
	ADD COLUMN IF NOT EXISTS received_at TIMESTAMPTZ,
	ADD COLUMN IF NOT EXISTS event_time  TIMESTAMPTZ,
	ADD COLUMN IF NOT EXISTS source      VARCHAR,
	ADD COLUMN IF NOT EXISTS instance    VARCHAR;
