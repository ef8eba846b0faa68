-- Reports pending deliveries. $1 is the age in ms at which a delivery is too old, $2 this listener's webhooks, $3 the
-- digests of their URLs. At most about 20,000 rows are read, shared among the targets: for each target the new rows, then
-- those that have failed, by due_at, and also the last fifty of each. Returns the number of deliveries; how many are too
-- old; age in ms, event id and target of the oldest; the names of targets that no listener serves, and the number of
-- their deliveries; the names in $2 that a running listener has with another URL; and for the paused ones in $2, a JSON
-- object that says by name since when, by whom and why.
--
-- The planner assumes a LIMIT of 1, as in lease.sql, so it reads the index outbox_lanes and never sorts.
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
), pending AS MATERIALIZED (
	SELECT true AS is_first, d.* FROM targets AS t, LATERAL (
		SELECT f.* FROM (VALUES (0), (1)) AS l (lane), LATERAL (
			SELECT target, event_id, created_at FROM :schema.outbox AS o
			WHERE o.target = t.target AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = l.lane AND state = 'pending'
			ORDER BY due_at LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''),
				'1')::bigint
		) AS f LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint
	) AS d
	UNION ALL
	SELECT false, d.* FROM targets AS t, (VALUES (0), (1)) AS l (lane), LATERAL (
		SELECT * FROM (
			SELECT target, event_id, created_at FROM :schema.outbox AS o
			WHERE o.target = t.target AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = l.lane AND state = 'pending'
			ORDER BY due_at DESC LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''),
				'1')::bigint
		) AS last LIMIT 50
	) AS d
), strays AS (
	SELECT target, (SELECT pg_catalog.count(*) FROM pending AS p WHERE is_first AND p.target = t.target) AS n
	FROM targets AS t WHERE target <> ALL ($2::text[]) AND NOT EXISTS (
		SELECT FROM :schema.wsonce_listeners WHERE t.target = ANY (targets) AND seen_at > pg_catalog.now() - interval
			'3 minutes'
	)
)
SELECT pg_catalog.count(*) FILTER (WHERE is_first), greatest(
		pg_catalog.count(*) FILTER (WHERE is_first AND created_at < pg_catalog.now() - $1::text::bigint * interval '1 millisecond'),
		pg_catalog.count(*) FILTER (WHERE NOT is_first AND created_at < pg_catalog.now() - $1::text::bigint * interval
			'1 millisecond')
	),
	coalesce(pg_catalog.floor(extract(epoch FROM pg_catalog.now() - pg_catalog.min(created_at)) * 1000), 0),
	(SELECT event_id FROM pending ORDER BY created_at LIMIT 1),
	(SELECT target FROM pending ORDER BY created_at LIMIT 1),
	(SELECT pg_catalog.string_agg(target, ' ' ORDER BY target) FROM strays), (SELECT coalesce(pg_catalog.sum(n),
		0) FROM strays), (
		SELECT pg_catalog.string_agg(DISTINCT mine.name, ' ' ORDER BY mine.name)
		FROM unnest($2::text[], $3::text[]) AS mine (name, url), :schema.wsonce_listeners AS l,
			LATERAL unnest(l.targets, l.target_urls) AS their (name, url)
		WHERE mine.name = their.name AND mine.url <> their.url AND seen_at > pg_catalog.now() - interval '3 minutes'
	), (
		SELECT pg_catalog.json_object_agg(target, pg_catalog.json_build_object(
			'since', pg_catalog.to_char(paused_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'by', paused_by,
			'reason', reason))
		FROM :schema.webhook_pauses WHERE target = ANY ($2::text[])
	)
FROM pending
