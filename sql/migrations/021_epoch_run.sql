-- The run of the server in which the epoch counts: a directory that was copied while the server was shut down, and put
-- back later, has the epoch of the copy. Postgres cannot tell it from its own.
ALTER TABLE :schema.wsonce_epoch ADD COLUMN IF NOT EXISTS run TIMESTAMPTZ;
ALTER TABLE :schema.wsonce_epoch ALTER COLUMN run SET DEFAULT pg_postmaster_start_time();
