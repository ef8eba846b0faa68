-- What each line (a listener's connection to a source) received in each minute of received_at, for wsonce lines; see
-- docs/lines.md. Sums are of 64-bit hashes of ids, modulo 2^64: lines with equal sums received the same events. unknown
-- counts copies whose minute is not known. up has pairs of milliseconds from the start of the minute: from when to when
-- the line was connected.
CREATE TABLE IF NOT EXISTS :schema.line_minutes (
	minute       TIMESTAMPTZ NOT NULL,
	source       TEXT        NOT NULL,
	listener     TEXT        NOT NULL,
	received     BIGINT      NOT NULL,
	received_sum BIGINT      NOT NULL,
	stored       BIGINT      NOT NULL,
	stored_sum   BIGINT      NOT NULL,
	unknown      BIGINT      NOT NULL,
	reconnects   INT         NOT NULL,
	up           INT[]       NOT NULL,
	PRIMARY KEY (minute, source, listener)
);
