-- The tables in an SQLite file: the columns of sql/migrations, with times as text that sorts
-- (2026-03-01T12:00:00.123456Z) and JSON as text. The unique event_id has the last word on duplicates.
CREATE TABLE events (
	id           INTEGER PRIMARY KEY,
	event_id     TEXT NOT NULL UNIQUE,
	event_type   TEXT NOT NULL,
	payload      TEXT NOT NULL,
	processed_at TEXT NOT NULL,
	purged_at    TEXT,
	received_at  TEXT,
	event_time   TEXT,
	source       TEXT,
	instance     TEXT
) STRICT;

-- Messages that cannot become an event. An id is never reused, since actions refer to it.
CREATE TABLE dead_letters (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	digest      BLOB NOT NULL UNIQUE,
	event_id    TEXT,
	event_type  TEXT,
	source      TEXT,
	reason      TEXT NOT NULL,
	raw         BLOB NOT NULL,
	sender      TEXT,
	instance_id TEXT NOT NULL,
	consumer    TEXT NOT NULL DEFAULT '',
	first_seen  TEXT NOT NULL,
	last_seen   TEXT NOT NULL,
	seen        INTEGER NOT NULL DEFAULT 1,
	resolved_at TEXT,
	resolution  TEXT,
	retried_at  TEXT
) STRICT;
CREATE INDEX dead_letters_event_id ON dead_letters (event_id);

CREATE TABLE dead_letter_actions (
	id          INTEGER PRIMARY KEY,
	letter_id   INTEGER NOT NULL,
	digest      BLOB NOT NULL,
	event_id    TEXT,
	action      TEXT NOT NULL,
	outcome     TEXT NOT NULL,
	note        TEXT,
	db_user     TEXT NOT NULL,
	instance_id TEXT NOT NULL,
	done_at     TEXT NOT NULL
) STRICT;
CREATE INDEX dead_letter_actions_letter_id ON dead_letter_actions (letter_id);

CREATE TABLE cursors (
	source      TEXT NOT NULL,
	scope       TEXT NOT NULL,
	kind        TEXT NOT NULL,
	value       TEXT NOT NULL,
	variables   TEXT,
	instance_id TEXT NOT NULL,
	changed_at  TEXT NOT NULL,
	PRIMARY KEY (source, scope)
) STRICT;

CREATE TABLE wsonce_listeners (
	listener       TEXT PRIMARY KEY,
	max_age_s      INTEGER,
	dedup_window_s INTEGER NOT NULL,
	started_at     TEXT NOT NULL,
	seen_at        TEXT NOT NULL,
	report         TEXT
) STRICT;

-- At most one row: event rows of this age were deleted, so listeners need a smaller --max-age.
CREATE TABLE wsonce_retention (
	is_only        INTEGER PRIMARY KEY CHECK (is_only = 1),
	rows_deleted_s INTEGER NOT NULL,
	changed_at     TEXT NOT NULL
) STRICT;

-- Identifies the file. opened counts commits, so that a file that has lost some is detected; its upper half is the epoch.
CREATE TABLE wsonce_database (
	is_only INTEGER PRIMARY KEY CHECK (is_only = 1),
	id      TEXT NOT NULL,
	opened  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO wsonce_database (is_only, id) VALUES (1, lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' ||
	substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))));
