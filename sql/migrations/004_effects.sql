-- Effects: what follows from an event, in its own transaction. For the fleets of several consumers, who
-- has processed what; "" is the fleet without a name, whose rows in events say it.
CREATE TABLE IF NOT EXISTS :schema.processed_events (
	consumer     VARCHAR COLLATE "C" NOT NULL,
	event_id     VARCHAR COLLATE "C" NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, event_id)
);

-- What is to be delivered to a webhook target, a row for each event and target. The payload is kept until
-- it is delivered, so that events can be purged meanwhile.
CREATE TABLE IF NOT EXISTS :schema.outbox (
	id         BIGSERIAL PRIMARY KEY,
	target     VARCHAR NOT NULL,
	event_id   VARCHAR NOT NULL,
	event_type VARCHAR NOT NULL,
	payload    JSONB,
	created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
	state      VARCHAR NOT NULL DEFAULT 'pending', -- then delivered or dead; discarded by an operator
	attempts   INT NOT NULL DEFAULT 0,             -- begun, the one under way included
	due_at     TIMESTAMPTZ NOT NULL DEFAULT now(), -- the next attempt; during one, when its lease ends
	settled_at TIMESTAMPTZ,                        -- no longer pending since
	status     INT,                                -- of the last answer; NULL: there was none
	answer     TEXT                                -- why the last attempt failed: the answer's head, or the error
);
CREATE INDEX IF NOT EXISTS outbox_due ON :schema.outbox (target, due_at) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS outbox_dead ON :schema.outbox (id) WHERE state = 'dead';

-- Who did what to which dead delivery. It outlives the delivery.
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

-- A dead letter of a consumer's fleet is its own: another consumer may have processed the same message.
-- Its digest is the SHA-256 of the message's, with the consumer's name behind it.
ALTER TABLE :schema.dead_letters ADD COLUMN IF NOT EXISTS consumer VARCHAR NOT NULL DEFAULT '';

-- What a fleet does with an event: a command that stores one has to do the same.
ALTER TABLE :schema.wsonce_listeners
	ADD COLUMN IF NOT EXISTS consumer VARCHAR NOT NULL DEFAULT '',
	ADD COLUMN IF NOT EXISTS handler  VARCHAR,
	ADD COLUMN IF NOT EXISTS targets  VARCHAR[] NOT NULL DEFAULT '{}';
