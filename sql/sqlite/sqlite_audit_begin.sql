-- The tables and views of sql/queries/audit_begin.sql.
CREATE TEMPORARY TABLE wsonce_expected (at INTEGER, id TEXT, name TEXT);
CREATE TEMPORARY VIEW wsonce_lines AS
	SELECT at, id, name, iif(name IS NULL, NULL, wsonce_bytes('\x' || substr(name, 8))) AS digest FROM wsonce_expected;
CREATE TEMPORARY TABLE wsonce_suspects (at INTEGER PRIMARY KEY, id TEXT, name TEXT, digest BLOB, found TEXT NOT NULL);
CREATE TEMPORARY VIEW wsonce_stored AS SELECT event_id FROM events;
CREATE TEMPORARY VIEW wsonce_letters AS SELECT id, event_id, digest, CASE
	WHEN resolved_at IS NULL OR last_seen > resolved_at THEN 4
	WHEN resolution = 'discarded' THEN 3
	WHEN resolution IN ('persisted', 'duplicate') THEN CASE WHEN EXISTS (
		SELECT 1 FROM dead_letter_actions AS a
		WHERE a.letter_id = d.id AND a.action = 'retry-edited' AND a.outcome IN ('persisted', 'duplicate')
	) THEN 2 ELSE 1 END
	ELSE 0 END AS grade
FROM dead_letters AS d;
