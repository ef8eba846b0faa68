-- Smaller rows: NULL is 0, and in up the whole minute. Listeners of the version before read NULL as 0, too, but not in up.
ALTER TABLE :schema.line_minutes
	ALTER COLUMN stored     DROP NOT NULL,
	ALTER COLUMN stored_sum DROP NOT NULL,
	ALTER COLUMN unknown    DROP NOT NULL,
	ALTER COLUMN reconnects DROP NOT NULL,
	ALTER COLUMN up         DROP NOT NULL;

-- Each check-in then inserts neighbours, which fills the index's pages. A large table, whose index would take long, keeps
-- the former order of the columns.
DO $do$ BEGIN
	IF coalesce(pg_catalog.pg_table_size((SELECT tableoid FROM :schema.line_minutes LIMIT 1)), 0) < 256000000 THEN
		ALTER TABLE :schema.line_minutes DROP CONSTRAINT line_minutes_pkey, ADD PRIMARY KEY (minute, listener, source);
	END IF;
END $do$;
