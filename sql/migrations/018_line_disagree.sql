-- disagree: events that came on this line within seconds of another line of the same listener, and with other bytes; NULL:
-- none. disagreements: the first 100 of them, a JSON array of [event_id, digest of the first copy, digest of this line's],
-- SHA-256 of the payload as it was sent, in hexadecimal.
ALTER TABLE :schema.line_minutes
	ADD COLUMN IF NOT EXISTS disagree      BIGINT,
	ADD COLUMN IF NOT EXISTS disagreements JSONB;
