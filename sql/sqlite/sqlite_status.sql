-- The parts of wsonce status for an SQLite file: those of sql/queries/status.sql.
-- part server
SELECT json_object('postgres', json_object('version', sqlite_version(), 'role', 'file', 'is_read_only', json('false'),
	'schema_version', (SELECT user_version FROM pragma_user_version)))
-- part letters
SELECT json_object('dead_letters', json_object('open', count(*), 'is_more', json(iif(count(*) = 10000, 'true', 'false'))))
FROM (
	SELECT 1 FROM dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at LIMIT 10000)
-- part outbox
SELECT json_object('outbox', json_object('pending', 0, 'oldest_s', 0, 'dead', 0, 'is_more', json('false')), 'targets', json('[]'))
-- part listeners
SELECT json_object('listeners', json_group_array(json_object('name', substr(listener, 1, length(listener) - 17),
	'listener', listener, 'checkin_s', max(unixepoch('now') - unixepoch(seen_at), 0),
	'uptime_s', max(unixepoch('now') - unixepoch(started_at), 0), 'consumer', '', 'report', json(report))))
FROM (SELECT * FROM wsonce_listeners WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 hour')
	ORDER BY listener)
-- part hour
SELECT json_object('hour', json_group_array(json_object(
	'at', strftime('%Y-%m-%dT%H:%M:%f000Z', minute * 60, 'unixepoch'),
	'received_per_s', received / 60.0, 'stored_per_s', stored / 60.0, 'duplicates_per_s', duplicates / 60.0,
	'dead_lettered', dead_lettered, 'p50_ms', p50_ms, 'p99_ms', p99_ms)))
FROM (
	SELECT m.value->>0 AS minute, sum(m.value->>1) AS received, sum(m.value->>2) AS stored, sum(m.value->>3) AS duplicates,
		sum(m.value->>4) AS dead_lettered, max(m.value->>5) AS p50_ms, max(m.value->>6) AS p99_ms
	FROM wsonce_listeners AS l, json_each(l.report, '$.hour') AS m
	WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 hour') AND m.type = 'array'
		AND unixepoch('now') / 60 - (m.value->>0) BETWEEN 1 AND 60
	GROUP BY minute ORDER BY minute
)
