-- Effects of events, in the transactions that store them. Records which consumer has processed which event. For the
-- fleet without a name, "", the rows in events are the record.
CREATE TABLE IF NOT EXISTS :schema.processed_events (
	consumer     VARCHAR COLLATE "C" NOT NULL,
	event_id     VARCHAR COLLATE "C" NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, event_id)
);

-- Deliveries to webhooks, one row for each event and target. A row keeps its payload until it is delivered, so events
-- can be purged before.
CREATE TABLE IF NOT EXISTS :schema.outbox (
	id         BIGSERIAL PRIMARY KEY,
	target     VARCHAR NOT NULL,
	event_id   VARCHAR NOT NULL,
	event_type VARCHAR NOT NULL,
	payload    JSONB,
	created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
	state      VARCHAR NOT NULL DEFAULT 'pending', -- then delivered, dead, or discarded by an operator
	attempts   INT NOT NULL DEFAULT 0,             -- attempts begun, the current one included
	due_at     TIMESTAMPTZ NOT NULL DEFAULT now(), -- time of the next attempt; during an attempt, end of its lease
	settled_at TIMESTAMPTZ,                        -- when it stopped being pending
	status     INT,                                -- of the last answer; NULL if there was none
	answer     TEXT                                -- why the last attempt failed: the start of the answer, or the error
);
CREATE INDEX IF NOT EXISTS outbox_due ON :schema.outbox (target, due_at) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS outbox_dead ON :schema.outbox (id) WHERE state = 'dead';

-- Records who did what to which dead delivery. It outlives the delivery.
CREATE TABLE IF NOT EXISTS :schema.delivery_actions (
	id          BIGSERIAL PRIMARY KEY,
	delivery_id BIGINT NOT NULL,
	target      VARCHAR NOT NULL,
	event_id    VARCHAR NOT NULL,
	action      TEXT NOT NULL, -- retry or discard
	note        TEXT,
	db_user     TEXT NOT NULL DEFAULT session_user,
	instance_id VARCHAR NOT NULL,
	done_at     TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS delivery_actions_delivery_id ON :schema.delivery_actions (delivery_id);

-- Each consumer's fleet has its own dead letters: another consumer may have processed the same message. The digest is
-- the SHA-256 of the message's digest followed by the consumer's name.
ALTER TABLE :schema.dead_letters ADD COLUMN IF NOT EXISTS consumer VARCHAR NOT NULL DEFAULT '';

-- What a fleet does with an event. A command that stores events must do the same.
ALTER TABLE :schema.wsonce_listeners
	ADD COLUMN IF NOT EXISTS consumer VARCHAR NOT NULL DEFAULT '',
	ADD COLUMN IF NOT EXISTS handler  VARCHAR,
	ADD COLUMN IF NOT EXISTS targets  VARCHAR[] NOT NULL DEFAULT '{}';
