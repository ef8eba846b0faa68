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
	'consumer', '', 'checkin_s', max(unixepoch('now') - unixepoch(seen_at), 0),
	'uptime_s', max(unixepoch('now') - unixepoch(started_at), 0), 'started', min(started_at, seen_at), 'seen', seen_at,
	'version', ifnull(report->>'version', ''), 'redis', ifnull(report->>'redis', ''),
	'in_flight', ifnull(report->>'in_flight', 0), 'held', ifnull(report->>'held', 0),
	'oldest_ms', ifnull(report->>'oldest_ms', 0),
	'received_per_s', ifnull((report->>'received') / period_s, 0), 'stored_per_s', ifnull((report->>'stored') / period_s, 0),
	'duplicates_per_s', ifnull((report->>'duplicates') / period_s, 0),
	'dead_lettered_per_s', ifnull((report->>'dead_lettered') / period_s, 0), 'report', json(report))))
FROM (SELECT *, nullif(report->>'period_ms', 0) / 1000.0 AS period_s FROM wsonce_listeners
	WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 hour') ORDER BY listener)
-- part settings
SELECT json_object('differing_settings', json_group_object(flag, json(vals))) FROM (
	SELECT flag, json_group_object(value, json(names)) AS vals FROM (
		SELECT s.key AS flag, s.value AS value, json_group_array(substr(listener, 1, length(listener) - 17)) AS names
		FROM wsonce_listeners, json_each(report, '$.settings') AS s
		WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-150 seconds') GROUP BY s.key, s.value
	) GROUP BY flag HAVING count(*) > 1
)
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
