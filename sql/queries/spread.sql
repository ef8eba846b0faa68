-- Creates the table of events for a layout that spreads rows by event_id. It runs before the migrations, which do not
-- change the table: event_id must be the key, and the index on id is not unique. A clause that says how to spread the
-- rows is appended.
CREATE TABLE :schema.events (
	id           BIGSERIAL NOT NULL,
	event_id     VARCHAR COLLATE "C" PRIMARY KEY,
	event_type   VARCHAR NOT NULL,
	payload      JSONB NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT pg_catalog.now()
)
