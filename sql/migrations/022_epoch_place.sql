-- The directory of the database to which the epoch belongs: CREATE DATABASE copies rows as they are, and the copy may be
-- put back later.
ALTER TABLE :schema.wsonce_epoch ADD COLUMN IF NOT EXISTS place TEXT;
ALTER TABLE :schema.wsonce_epoch ALTER COLUMN place
	SET DEFAULT substring(pg_relation_filepath('pg_catalog.pg_class') FROM '.*/');
