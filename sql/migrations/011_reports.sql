-- What a listener reports at each check-in, for wsonce status: version, sources, rates, settings (ops/report.c). NULL
-- for older listeners.
SET LOCAL lock_timeout = '200ms';
ALTER TABLE :schema.wsonce_listeners ADD COLUMN IF NOT EXISTS report JSONB;
