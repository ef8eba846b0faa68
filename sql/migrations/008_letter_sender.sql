-- The sender of the message: the name of a token or certificate, if producers show one.
ALTER TABLE :schema.dead_letters ADD COLUMN IF NOT EXISTS sender VARCHAR;
