-- Identifies the database. A standby, a backup and a dump have the same id.
CREATE TABLE IF NOT EXISTS :schema.wsonce_database (
	is_only BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_only),
	id      UUID NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO :schema.wsonce_database DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Identifies the history of the database. Has at most one row, written by the first listener that finds none. Postgres
-- empties an unlogged table when it recovers from a crash, promotes a standby or restores a backup, which is whenever
-- commits that were reported may be lost. home is the transaction that wrote the row, so it equals the row's xmin. In a
-- row restored from a dump it does not, and that row counts as absent.
CREATE UNLOGGED TABLE IF NOT EXISTS :schema.wsonce_epoch (
	is_only BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_only),
	epoch   VARCHAR NOT NULL DEFAULT pg_catalog.left(gen_random_uuid()::text, 8),
	home    XID NOT NULL DEFAULT pg_current_xact_id()::xid
);
