-- A dead letter that was stored after all, or discarded, keeps when and how. It is open again when it comes again.
-- Listeners older than this schema do not clear resolved_at, so a letter with a later last_seen counts as open, too.
ALTER TABLE :schema.dead_letters
	ADD COLUMN IF NOT EXISTS resolved_at TIMESTAMPTZ,
	ADD COLUMN IF NOT EXISTS resolution  TEXT; -- persisted, duplicate or discarded

-- Records who did what to which letter. It outlives the letter, so it has the digest and no foreign key.
CREATE TABLE IF NOT EXISTS :schema.dead_letter_actions (
	id          BIGSERIAL PRIMARY KEY,
	letter_id   BIGINT NOT NULL,
	digest      BYTEA NOT NULL,
	event_id    VARCHAR,
	action      TEXT NOT NULL, -- retry, retry-edited or discard
	outcome     TEXT NOT NULL, -- persisted, duplicate, rejected or discarded
	note        TEXT,          -- the operator's note, or why it was rejected
	db_user     TEXT NOT NULL DEFAULT session_user,
	instance_id VARCHAR NOT NULL,
	done_at     TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS dead_letter_actions_letter_id ON :schema.dead_letter_actions (letter_id);
