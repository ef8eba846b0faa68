-- behind_p50, behind_p99: for how many ms the line's copies came after those that were stored, negative if before; NULL:
-- not known.
ALTER TABLE :schema.line_minutes
	ADD COLUMN IF NOT EXISTS behind_p50 INT,
	ADD COLUMN IF NOT EXISTS behind_p99 INT;
