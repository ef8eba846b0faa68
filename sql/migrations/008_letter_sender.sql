-- Who sent the message of a letter: the name of a token or certificate, where producers show one.
ALTER TABLE :schema.dead_letters ADD COLUMN IF NOT EXISTS sender VARCHAR;
