-- Precedes make_epoch.sql if a listener knows a later run of the server than the row's: its directory is an old copy.
UPDATE :schema.wsonce_epoch SET run = NULL WHERE run <> pg_catalog.pg_postmaster_start_time()
