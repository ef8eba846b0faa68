-- Data kept for years: rows without a payload, what listeners report, and statistics of duplicates.
ALTER TABLE :schema.events ADD COLUMN IF NOT EXISTS purged_at TIMESTAMPTZ;

-- The running listeners. Each updates its row once a minute and deletes it when it stops.
CREATE TABLE IF NOT EXISTS :schema.wsonce_listeners (
	listener       VARCHAR PRIMARY KEY,
	max_age_s      BIGINT, -- NULL: no limit
	dedup_window_s BIGINT NOT NULL,
	started_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
	seen_at        TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- At most one row: event rows of this age were deleted, so listeners need a smaller --max-age.
CREATE TABLE IF NOT EXISTS :schema.wsonce_retention (
	is_only        BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_only),
	rows_deleted_s BIGINT NOT NULL,
	changed_at     TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- One row per day (UTC). copies counts duplicates by their delay: below 1 ms, then from each power of two to the next.
-- sketch is no longer used.
CREATE TABLE IF NOT EXISTS :schema.wsonce_duplicates (
	day    DATE PRIMARY KEY,
	events BIGINT NOT NULL,
	copies BIGINT[] NOT NULL,
	sketch BYTEA NOT NULL
);
