-- Smaller rows: NULL is 0, and in up the whole minute. Listeners of the version before read NULL as 0, too, but not in up.
ALTER TABLE :schema.line_minutes
	ALTER COLUMN stored     DROP NOT NULL,
	ALTER COLUMN stored_sum DROP NOT NULL,
	ALTER COLUMN unknown    DROP NOT NULL,
	ALTER COLUMN reconnects DROP NOT NULL,
	ALTER COLUMN up         DROP NOT NULL;
