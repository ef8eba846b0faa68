-- The parts of wsonce status. Each is run separately and returns an object with members of what --json prints, and with
-- the last report of each listener. Counts end at 10,000 letters, 10,000 dead deliveries, and 20,000 pending ones, shared
-- among the targets; is_more says so.
-- part server
SELECT pg_catalog.json_build_object('postgres', pg_catalog.json_build_object(
	'version', pg_catalog.current_setting('server_version'),
	'role', CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
	'synchronous_commit', pg_catalog.current_setting('synchronous_commit'),
	'synchronous_standby_names', pg_catalog.current_setting('synchronous_standby_names'),
	'is_read_only', pg_catalog.current_setting('transaction_read_only') = 'on',
	'schema_version', (SELECT pg_catalog.max(version) FROM :schema.wsonce_schema)))
-- part letters
SELECT pg_catalog.json_build_object('dead_letters', pg_catalog.json_build_object('open', pg_catalog.count(*), 'is_more',
	pg_catalog.count(*) = 10000)) FROM (
	SELECT FROM :schema.dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at
	ORDER BY consumer, id LIMIT 10000) AS l
-- part outbox
-- By target. As in backlog.sql, reads for each target the new rows, then those that have failed, by due_at, and also the
-- last fifty of each, by the index outbox_lanes.
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
SELECT pg_catalog.json_build_object('outbox', pg_catalog.json_build_object(
		'pending', coalesce(pg_catalog.sum(pending), 0), 'oldest_s', coalesce(pg_catalog.max(oldest_s), 0),
		'dead', coalesce(pg_catalog.sum(dead), 0), 'is_more', coalesce(pg_catalog.bool_or(is_more), false)
			OR coalesce(pg_catalog.sum(dead), 0) = 10000),
	'targets', coalesce(pg_catalog.json_agg(t ORDER BY target), '[]'))
FROM (
	SELECT target, pg_catalog.sum(pending) AS pending, pg_catalog.sum(dead) AS dead, pg_catalog.sum(pending)
			= nullif(pg_catalog.current_setting('wsonce.wanted', true), '')::bigint AS is_more,
		greatest(pg_catalog.floor(extract(epoch FROM pg_catalog.now() - pg_catalog.min(created_at))), 0) AS oldest_s
	FROM found GROUP BY target
) AS t
-- part pauses
-- Those of webhooks that a listener has, or that have deliveries. The order makes the planner use the index.
SELECT pg_catalog.json_build_object('paused_webhooks', coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
	'name', target, 'since', pg_catalog.to_char(paused_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
	'by', paused_by, 'reason', reason) ORDER BY target), '[]'))
FROM :schema.webhook_pauses AS p WHERE EXISTS (
	SELECT FROM :schema.wsonce_listeners WHERE p.target = ANY (targets) AND seen_at > pg_catalog.now() - interval '3 minutes'
) OR p.target = (
	SELECT o.target FROM :schema.outbox AS o WHERE o.target >= p.target AND state = 'pending' ORDER BY o.target LIMIT 1)
-- part listeners
SELECT pg_catalog.json_build_object('listeners', coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
	'name', pg_catalog.left(listener, -17), 'consumer', consumer,
	'checkin_s', greatest(pg_catalog.floor(extract(epoch FROM pg_catalog.now() - seen_at)), 0),
	'uptime_s', greatest(pg_catalog.floor(extract(epoch FROM pg_catalog.now() - started_at)), 0),
	'started', pg_catalog.to_char(least(started_at, seen_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'),
	'seen', pg_catalog.to_char(seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'),
	'version', coalesce(report->>'version', ''), 'redis', coalesce(report->>'redis', ''),
	'in_flight', coalesce((report->>'in_flight')::bigint, 0), 'held', coalesce((report->>'held')::bigint, 0),
	'oldest_ms', coalesce((report->>'oldest_ms')::bigint, 0),
	'received_per_s', coalesce((report->>'received')::float8 / period_s, 0),
	'stored_per_s', coalesce((report->>'stored')::float8 / period_s, 0),
	'duplicates_per_s', coalesce((report->>'duplicates')::float8 / period_s, 0),
	'dead_lettered_per_s', coalesce((report->>'dead_lettered')::float8 / period_s, 0),
	'report', report) ORDER BY listener), '[]'))
FROM :schema.wsonce_listeners, LATERAL (SELECT nullif((report->>'period_ms')::float8, 0) / 1000) AS p (period_s)
WHERE seen_at > pg_catalog.now() - interval '1 hour'
-- part settings
-- Settings that differ between listeners of a consumer that check in, by value: {"claim-ttl": {"30s": ["a"], "20s": ["b"]}}.
-- Those of webhooks are their names, with the beginnings of the digests of their URLs.
SELECT pg_catalog.json_build_object('differing_settings', coalesce(pg_catalog.json_object_agg(flag, values), '{}')) FROM (
	SELECT flag, pg_catalog.json_object_agg(value, names) AS values FROM (
		SELECT flag, value, pg_catalog.json_agg(pg_catalog.left(listener, -17) ORDER BY listener) AS names FROM (
			SELECT listener, flag, value, pg_catalog.min(value) OVER fleet <> pg_catalog.max(value) OVER fleet AS differs
			FROM :schema.wsonce_listeners, LATERAL (
				SELECT coalesce(pg_catalog.string_agg(name || ' ' || pg_catalog.left(url, 4), ', ' ORDER BY name), 'not set')
				FROM unnest(targets, target_urls) AS w (name, url)
			) AS w (webhooks), LATERAL pg_catalog.jsonb_each_text(CASE WHEN
				pg_catalog.jsonb_typeof(report->'settings') = 'object' THEN report->'settings'
					|| pg_catalog.jsonb_build_object('webhooks', webhooks) END) AS s (flag, value)
			WHERE seen_at > pg_catalog.now() - interval '150 s' WINDOW fleet AS (PARTITION BY consumer, flag)
		) AS s WHERE differs GROUP BY flag, value
	) AS v GROUP BY flag
) AS f
-- part effects
-- Listeners that share a source, but not its effects. One with effects but no consumer beside one of a consumer: the
-- effects of an event are those of the fleet that stores it first, and of each consumer. Or two of one consumer. A source
-- has an id beside its name, since feeds of one host may have one name. Of listeners of one name, the youngest counts.
SELECT pg_catalog.json_build_object('effects', (
	WITH heard AS MATERIALIZED (
		SELECT DISTINCT ON (name, consumer, id) name, consumer, id, s->>'name' AS source, ROW (handler, targets)::text
			AS effects, consumer = '' AND (handler IS NOT NULL OR targets <> '{}') AS is_bare
		FROM :schema.wsonce_listeners, LATERAL pg_catalog.left(listener, -17) AS n (name),
			LATERAL pg_catalog.jsonb_array_elements(CASE WHEN pg_catalog.jsonb_typeof(report->'sources') = 'array'
				THEN report->'sources' END) AS s,
			LATERAL (SELECT pg_catalog.concat(s->>'name', ' ', s->>'id')) AS i (id)
		WHERE seen_at > pg_catalog.now() - interval '150 s' ORDER BY name, consumer, id, started_at DESC
	)
	SELECT CASE WHEN is_bare AND theirs <> '' THEN pg_catalog.format('%s has effects but no --consumer: they miss the '
			'events of source %s that the consumer %s stores first', name, source, theirs)
		ELSE pg_catalog.format('%s has other handlers or webhooks than %s for source %s: an event has those of whoever '
			'stores it', first_name, name, source) END
	FROM (
		SELECT *, pg_catalog.max(consumer) OVER (PARTITION BY id) AS theirs, pg_catalog.first_value(name) OVER w AS first_name,
			pg_catalog.first_value(effects) OVER w AS first_effects
		FROM heard WINDOW w AS (PARTITION BY id, consumer ORDER BY name)
	) AS h
	WHERE (is_bare AND theirs <> '') OR effects <> first_effects
	ORDER BY is_bare AND theirs <> '' DESC, first_name, source, name LIMIT 1))
-- part hour
-- Latencies are those of the slowest listener. Listeners that have left have no row.
SELECT pg_catalog.json_build_object('hour', coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
	'at', pg_catalog.to_char(pg_catalog.to_timestamp(minute * 60) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
	'received_per_s', received / 60, 'stored_per_s', stored / 60, 'duplicates_per_s', duplicates / 60,
	'dead_lettered', dead_lettered, 'p50_ms', p50_ms, 'p99_ms', p99_ms) ORDER BY minute), '[]'))
FROM (
	SELECT minute, pg_catalog.sum((m->>1)::numeric) AS received, pg_catalog.sum((m->>2)::numeric) AS stored,
		pg_catalog.sum((m->>3)::numeric) AS duplicates, pg_catalog.sum((m->>4)::numeric) AS dead_lettered,
		pg_catalog.max((m->>5)::numeric) AS p50_ms, pg_catalog.max((m->>6)::numeric) AS p99_ms
	FROM :schema.wsonce_listeners AS l
	CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(CASE WHEN pg_catalog.jsonb_typeof(report->'hour') = 'array'
		THEN report->'hour' END) AS m
	CROSS JOIN LATERAL (SELECT CASE WHEN pg_catalog.jsonb_typeof(m->0) = 'number' THEN (m->>0)::bigint END) AS n (minute)
	WHERE seen_at > pg_catalog.now() - interval '1 hour'
		AND pg_catalog.floor(extract(epoch FROM pg_catalog.now()) / 60) - minute BETWEEN 1 AND 60
	GROUP BY minute
) AS h
