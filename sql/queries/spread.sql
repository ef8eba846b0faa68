-- The table of events where its rows are spread by event_id, before the migrations, which leave it as it is: the key
-- has to be the event_id, and id has an index that is not unique. What follows says how it is spread.
CREATE TABLE :schema.events (
	id           BIGSERIAL NOT NULL,
	event_id     VARCHAR COLLATE "C" PRIMARY KEY,
	event_type   VARCHAR NOT NULL,
	payload      JSONB NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
