-- For feeds with profiles. If the rules have read an event, its letter keeps what they read: raw is only the payload,
-- and event_type is not NULL. If they could not read a frame, raw is the frame. source is the name of the profile's
-- source.
ALTER TABLE :schema.dead_letters
	ADD COLUMN IF NOT EXISTS event_type VARCHAR,
	ADD COLUMN IF NOT EXISTS source     VARCHAR;

-- Where to resume a source: everything it sent before this is stored. kind max only grows. scope is '' for the source
-- as a whole, a host, or 'session', which keeps the variables of the session.
CREATE TABLE IF NOT EXISTS :schema.cursors (
	source      TEXT COLLATE "C" NOT NULL,
	scope       TEXT COLLATE "C" NOT NULL,
	kind        TEXT COLLATE "C" NOT NULL, -- max or last
	value       TEXT COLLATE "C" NOT NULL, -- JSON: a number or a string
	variables   TEXT,                      -- a JSON object
	instance_id TEXT NOT NULL,
	changed_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
	PRIMARY KEY (source, scope)
);
