-- The session of wsonce audit. wsonce_expected holds the expected events, as read: at is the offset of the line, name
-- is sha256: and the digest of a line that is not an event. wsonce_lines adds the digest of its dead letter, which
-- includes the consumer (sql/migrations/004_effects.sql). wsonce_suspects holds those without a row, once each.
-- wsonce_letters grades dead letters: 4 open, 3 discarded, 2 stored after an edit, 1 stored as it was.
SET work_mem = '64MB';
SET temp_buffers = '32MB';
SET statement_timeout = 0;
SET jit = off;
-- Ctrl-C ends the statement too. Postgres 13 has no such setting.
SELECT pg_catalog.set_config(name, '1s', false) FROM pg_catalog.pg_settings
WHERE name = 'client_connection_check_interval';
-- Ids have the collation of the table, so that its index can be used.
CREATE TEMPORARY TABLE wsonce_expected AS
	SELECT 0::bigint AS at, event_id::text AS id, ''::text AS name FROM :schema.events WITH NO DATA;
CREATE TEMPORARY VIEW wsonce_lines AS
	SELECT at, id, name, CASE consumer WHEN '' THEN own
		ELSE pg_catalog.sha256(own || pg_catalog.convert_to(consumer, 'UTF8')) END AS digest
	FROM wsonce_expected, LATERAL (SELECT pg_catalog.decode(substring(name FROM 8), 'hex'),
		pg_catalog.current_setting('wsonce.consumer')) AS of_line (own, consumer);
-- These have the default collation, as dead_letters.event_id has.
CREATE TEMPORARY TABLE wsonce_suspects (at bigint PRIMARY KEY, id text, name text, digest bytea, found text NOT NULL);
CREATE TEMPORARY VIEW wsonce_letters AS SELECT id, event_id, digest, CASE
	WHEN resolved_at IS NULL OR last_seen > resolved_at THEN 4
	WHEN resolution = 'discarded' THEN 3
	WHEN resolution IN ('persisted', 'duplicate') THEN CASE WHEN EXISTS (
		SELECT FROM :schema.dead_letter_actions AS a
		WHERE a.letter_id = d.id AND a.action = 'retry-edited' AND a.outcome IN ('persisted', 'duplicate')
	) THEN 2 ELSE 1 END
	ELSE 0 END AS grade
FROM :schema.dead_letters AS d WHERE consumer = pg_catalog.current_setting('wsonce.consumer');
