-- Years: rows whose payload is gone, what listeners tell of themselves, and what is known of duplicates.
ALTER TABLE :schema.events ADD COLUMN IF NOT EXISTS purged_at TIMESTAMPTZ;

-- The listeners that run: each writes its row once a minute, and takes it away when it leaves.
CREATE TABLE IF NOT EXISTS :schema.wsonce_listeners (
	listener       VARCHAR PRIMARY KEY,
	max_age_s      BIGINT, -- NULL: events of any age are taken
	dedup_window_s BIGINT NOT NULL,
	started_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
	seen_at        TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- At most one row: rows of events of this age were deleted, so listeners need a --max-age below it.
CREATE TABLE IF NOT EXISTS :schema.wsonce_retention (
	is_only        BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_only),
	rows_deleted_s BIGINT NOT NULL,
	changed_at     TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- A row for each day (UTC). copies counts duplicates by their delay: less than 1 ms, then from each power
-- of two to the next. sketch tells how many different events they were (see listener/road/duplicates.c).
CREATE TABLE IF NOT EXISTS :schema.wsonce_duplicates (
	day    DATE PRIMARY KEY,
	events BIGINT NOT NULL,
	copies BIGINT[] NOT NULL,
	sketch BYTEA NOT NULL
);
