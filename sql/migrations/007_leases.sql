-- How often the row was leased. It only grows, and what a listener records of an attempt must bear the number of the last
-- lease: attempts, which go down when a row is given back and begin anew when an operator retries it, were given out twice.
SET LOCAL lock_timeout = '10s';
ALTER TABLE :schema.outbox ADD COLUMN IF NOT EXISTS leases BIGINT NOT NULL DEFAULT 0;

-- Digests of the targets' URLs, in the order of targets: a name should mean the same to all listeners.
ALTER TABLE :schema.wsonce_listeners ADD COLUMN IF NOT EXISTS target_urls VARCHAR[] NOT NULL DEFAULT '{}';
