-- A row of the outbox is updated twice and stays, so what is dead in the table and its indexes is removed when it is a
-- hundredth of it, and not a fifth, as by default.
SET LOCAL lock_timeout = '10s';
ALTER TABLE :schema.outbox SET (
	autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
	autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 5000
);

-- When somebody took a letter to feed it again: who discards letters leaves it alone for a while.
ALTER TABLE :schema.dead_letters ADD COLUMN IF NOT EXISTS retried_at TIMESTAMPTZ;
