-- gap: numbers of the feed that did not come before events of this minute on this line; NULL if the profile names no
-- numbers. silent_ms: how long the line brought nothing while another listener's did. filled: numbers that no line got,
-- and that the listener asked for; NULL: none.
ALTER TABLE :schema.line_minutes
	ADD COLUMN IF NOT EXISTS gap       BIGINT,
	ADD COLUMN IF NOT EXISTS silent_ms INT,
	ADD COLUMN IF NOT EXISTS filled    BIGINT;
