-- What wsonce status asks, each part by itself. Objects of what each knows.
-- part server
SELECT pg_catalog.json_build_object('version', pg_catalog.current_setting('server_version'),
	'role', CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
	'synchronous_commit', pg_catalog.current_setting('synchronous_commit'),
	'synchronous_standby_names', pg_catalog.current_setting('synchronous_standby_names'),
	'is_read_only', pg_catalog.current_setting('transaction_read_only') = 'on',
	'schema_version', (SELECT pg_catalog.max(version) FROM :schema.wsonce_schema))
-- part letters
SELECT pg_catalog.json_build_object('open', count(*)) FROM (
	SELECT FROM :schema.dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at LIMIT 10000) AS l
-- part outbox
SELECT pg_catalog.json_build_object('pending', count(*),
	'oldest_s', coalesce(pg_catalog.floor(extract(epoch FROM now() - pg_catalog.min(created_at))), 0),
	'dead', (SELECT count(*) FROM (SELECT FROM :schema.outbox WHERE state = 'dead' LIMIT 10000) AS d))
FROM (SELECT created_at FROM :schema.outbox WHERE state = 'pending' LIMIT 10000) AS o
-- part targets
SELECT pg_catalog.json_build_object('target', target, 'pending', pg_catalog.sum(pending), 'dead', pg_catalog.sum(dead),
	'oldest_s', coalesce(pg_catalog.floor(extract(epoch FROM now() - pg_catalog.min(since))), 0))
FROM ((SELECT target, 1 AS pending, 0 AS dead, created_at AS since FROM :schema.outbox
		WHERE state = 'pending' LIMIT 10000)
	UNION ALL (SELECT target, 0, 1, NULL FROM :schema.outbox WHERE state = 'dead' LIMIT 10000)) AS o
GROUP BY target ORDER BY target
-- part listeners
SELECT pg_catalog.json_build_object('name', pg_catalog.left(listener, -17), 'listener', listener,
	'checkin_s', greatest(pg_catalog.floor(extract(epoch FROM now() - seen_at)), 0),
	'uptime_s', greatest(pg_catalog.floor(extract(epoch FROM now() - started_at)), 0),
	'consumer', consumer, 'report', report)
FROM :schema.wsonce_listeners WHERE seen_at > now() - interval '1 hour' ORDER BY listener
