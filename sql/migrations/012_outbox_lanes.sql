-- Deliveries that have failed, which have an answer, are leased apart from the others, so that none waits behind them.
-- Listeners of the version before sort what is due until they are replaced.
SET LOCAL lock_timeout = '10s';
CREATE INDEX IF NOT EXISTS outbox_lanes ON :schema.outbox (target, (CASE WHEN answer IS NULL THEN 0 ELSE 1 END), due_at)
	WHERE state = 'pending';
DROP INDEX IF EXISTS :schema.outbox_due;
