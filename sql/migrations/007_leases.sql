-- Counts the leases of the row, and only grows. A listener that records an attempt must give the number of the last
-- lease. attempts cannot serve for this: it decreases when a row is given back, and restarts when an operator retries.
SET LOCAL lock_timeout = '10s';
ALTER TABLE :schema.outbox ADD COLUMN IF NOT EXISTS leases BIGINT NOT NULL DEFAULT 0;

-- Digests of the URLs of targets, in the order of targets: a name should mean the same to all listeners.
ALTER TABLE :schema.wsonce_listeners ADD COLUMN IF NOT EXISTS target_urls VARCHAR[] NOT NULL DEFAULT '{}';
