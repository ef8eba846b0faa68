-- The parts of wsonce status for an SQLite file: those of sql/queries/status.sql.
-- part server
SELECT json_object('version', sqlite_version(), 'role', 'file', 'is_read_only', json('false'), 'schema_version',
	(SELECT user_version FROM pragma_user_version))
-- part letters
SELECT json_object('open', count(*)) FROM (
	SELECT 1 FROM dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at LIMIT 10000)
-- part outbox
SELECT '' WHERE false
-- part listeners
SELECT json_object('name', substr(listener, 1, length(listener) - 17), 'listener', listener,
	'checkin_s', max(unixepoch('now') - unixepoch(seen_at), 0), 'uptime_s', max(unixepoch('now') - unixepoch(started_at), 0),
	'consumer', '', 'report', json(report))
FROM wsonce_listeners WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 hour') ORDER BY listener
