-- Creates the table of events for a layout that spreads rows by event_id. It comes before the migrations, which leave
-- it as it is: event_id must be the key, and the index on id is not unique. The text that follows says how to spread
-- the rows.
CREATE TABLE :schema.events (
	id           BIGSERIAL NOT NULL,
	event_id     VARCHAR COLLATE "C" PRIMARY KEY,
	event_type   VARCHAR NOT NULL,
	payload      JSONB NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
