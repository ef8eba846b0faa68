-- behind_p50, behind_p99: how many ms the line's copies came after those that were stored, negative if before; NULL:
-- unknown. minutes: how many minutes the row covers, beginning at a multiple of that since 1970; NULL: one.
ALTER TABLE :schema.line_minutes
	ADD COLUMN IF NOT EXISTS behind_p50 INT,
	ADD COLUMN IF NOT EXISTS behind_p99 INT,
	ADD COLUMN IF NOT EXISTS minutes    SMALLINT;
