-- The parts of wsonce status. Each is run separately and returns JSON objects.
-- part server
SELECT pg_catalog.json_build_object('version', pg_catalog.current_setting('server_version'),
	'role', CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
	'synchronous_commit', pg_catalog.current_setting('synchronous_commit'),
	'synchronous_standby_names', pg_catalog.current_setting('synchronous_standby_names'),
	'is_read_only', pg_catalog.current_setting('transaction_read_only') = 'on',
	'schema_version', (SELECT pg_catalog.max(version) FROM :schema.wsonce_schema))
-- part letters
SELECT pg_catalog.json_build_object('open', count(*)) FROM (
	SELECT FROM :schema.dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at
	ORDER BY consumer, id LIMIT 10000) AS l
-- part outbox
-- By target. As in backlog.sql, reads of each target the new rows and then those that have failed, as they are due, and
-- the fifty of each that are due last, by the index outbox_lanes.
WITH RECURSIVE names AS (
	(SELECT target FROM :schema.outbox WHERE state = 'pending' ORDER BY target LIMIT 1)
	UNION ALL
	SELECT (SELECT o.target FROM :schema.outbox AS o WHERE o.state = 'pending' AND o.target > n.target ORDER BY
		o.target LIMIT 1)
	FROM names AS n WHERE n.target IS NOT NULL
), targets AS MATERIALIZED (
	SELECT target FROM (SELECT target FROM names WHERE target IS NOT NULL LIMIT 1000) AS n
	WHERE pg_catalog.set_config('wsonce.wanted', (20000 / (SELECT greatest(pg_catalog.count(target), 1) FROM
		names))::text, true) <> ''
), found AS (
	SELECT t.target, 1 AS pending, 0 AS dead, d.created_at FROM targets AS t, LATERAL (
		SELECT f.* FROM (VALUES (0), (1)) AS l (lane), LATERAL (
			SELECT created_at FROM :schema.outbox AS o
			WHERE o.target = t.target AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = l.lane AND state = 'pending'
			ORDER BY due_at LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint
		) AS f LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint
	) AS d
	UNION ALL
	SELECT t.target, 0, 0, d.created_at FROM targets AS t, (VALUES (0), (1)) AS l (lane), LATERAL (
		SELECT * FROM (
			SELECT created_at FROM :schema.outbox AS o
			WHERE o.target = t.target AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = l.lane AND state = 'pending'
			ORDER BY due_at DESC LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint
		) AS last LIMIT 50
	) AS d
	UNION ALL
	(SELECT target, 0, 1, NULL FROM :schema.outbox WHERE state = 'dead' ORDER BY id LIMIT 10000)
)
SELECT pg_catalog.json_build_object('target', target, 'pending', pg_catalog.sum(pending), 'dead', pg_catalog.sum(dead),
	'oldest_s', coalesce(pg_catalog.floor(extract(epoch FROM now() - pg_catalog.min(created_at))), 0))
FROM found GROUP BY target ORDER BY target
-- part listeners
SELECT pg_catalog.json_build_object('name', pg_catalog.left(listener, -17), 'listener', listener,
	'checkin_s', greatest(pg_catalog.floor(extract(epoch FROM now() - seen_at)), 0),
	'uptime_s', greatest(pg_catalog.floor(extract(epoch FROM now() - started_at)), 0),
	'consumer', consumer, 'report', report)
FROM :schema.wsonce_listeners WHERE seen_at > now() - interval '1 hour' ORDER BY listener
