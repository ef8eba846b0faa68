-- The events. The unique event_id has the last word on duplicates: whatever Redis says or loses, an event has at most
-- one row. Its collation does not depend on the operating system, whose upgrades would corrupt the index.
CREATE TABLE IF NOT EXISTS :schema.events (
	id           BIGSERIAL PRIMARY KEY,
	event_id     VARCHAR COLLATE "C" UNIQUE NOT NULL,
	event_type   VARCHAR NOT NULL,
	payload      JSONB NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- Messages that cannot become an event, one row for the whole fleet. digest is the SHA-256 of the message as received.
-- raw has its bytes, or only the first of them if it exceeded --max-message.
CREATE TABLE IF NOT EXISTS :schema.dead_letters (
	id          BIGSERIAL PRIMARY KEY,
	digest      BYTEA UNIQUE NOT NULL,
	event_id    VARCHAR,
	reason      TEXT NOT NULL,
	raw         BYTEA NOT NULL,
	instance_id VARCHAR NOT NULL,
	first_seen  TIMESTAMPTZ NOT NULL DEFAULT now(),
	last_seen   TIMESTAMPTZ NOT NULL DEFAULT now(),
	seen        BIGINT NOT NULL DEFAULT 1
);
