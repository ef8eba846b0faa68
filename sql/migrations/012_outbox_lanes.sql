-- Deliveries that have failed are leased apart from new ones, so that no new one waits behind them. Listeners of the version
-- before sort what is due until they are replaced.
SET LOCAL lock_timeout = '10s';
CREATE INDEX IF NOT EXISTS outbox_lanes ON :schema.outbox (target, least(attempts, 1), due_at) WHERE state = 'pending';
DROP INDEX IF EXISTS :schema.outbox_due;
