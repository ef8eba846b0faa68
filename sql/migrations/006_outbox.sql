-- A row of the outbox is updated twice and stays. So vacuum the table when one hundredth of it is dead, instead of the
-- default of one fifth.
SET LOCAL lock_timeout = '10s';
ALTER TABLE :schema.outbox SET (
	autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
	autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 5000
);

-- When an operator last retried the letter. A discard of letters leaves it alone for a while.
ALTER TABLE :schema.dead_letters ADD COLUMN IF NOT EXISTS retried_at TIMESTAMPTZ;
