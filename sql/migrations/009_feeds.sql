-- Feeds by profile. Of an event that the rules of a profile have read, a letter keeps what they read: raw is its payload
-- alone then, and event_type is not NULL. A frame that they could not read is raw as it came. source is the name of the
-- profile's source.
ALTER TABLE :schema.dead_letters
	ADD COLUMN IF NOT EXISTS event_type VARCHAR,
	ADD COLUMN IF NOT EXISTS source     VARCHAR;

-- From where a source is to be asked again: everything that it sent before this is stored. kind max only grows. scope is
-- '' for the source as a whole, or the host, or 'session', whose variables are kept with it.
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
