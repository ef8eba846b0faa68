-- Returns a JSON array with the state of each webhook, or only of $1: those that a running listener has, that have
-- deliveries, or that are paused. Counts at most 20,001 rows of each lane (see lease.sql), and the newest 20,001 dead rows
-- of all webhooks; dead_counted says so if there may be more. last_failure is the answer to the row of the retry lane
-- that is due last.
WITH RECURSIVE pending AS (
	(SELECT target FROM :schema.outbox WHERE state = 'pending' ORDER BY target LIMIT 1)
	UNION ALL
	SELECT (SELECT o.target FROM :schema.outbox AS o WHERE o.state = 'pending' AND o.target > n.target ORDER BY
		o.target LIMIT 1)
	FROM pending AS n WHERE n.target IS NOT NULL
), dead AS MATERIALIZED (
	SELECT target, pg_catalog.count(*) AS n FROM (
		SELECT target FROM :schema.outbox WHERE state = 'dead' ORDER BY id DESC LIMIT 20001
	) AS newest GROUP BY target
), served AS MATERIALIZED (
	SELECT target, pg_catalog.count(*) AS n FROM :schema.wsonce_listeners, LATERAL pg_catalog.unnest(targets) AS t (target)
	WHERE seen_at > pg_catalog.now() - interval '3 minutes' GROUP BY target
), names (name) AS (
	SELECT target FROM pending WHERE target IS NOT NULL UNION SELECT target FROM dead UNION SELECT target FROM served
	UNION SELECT target FROM :schema.webhook_pauses
)
SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
	'name', name,
	'state', CASE WHEN p.target IS NOT NULL THEN 'paused' WHEN s.n IS NULL THEN 'unattended' ELSE 'delivering' END,
	'reason', p.reason, 'paused_by', p.paused_by, 'paused_at', p.paused_at,
	'listeners', coalesce(s.n, 0), 'pending', w.n, 'failing', w.failing, 'dead', coalesce(d.n, 0),
	'dead_counted', CASE WHEN (SELECT pg_catalog.sum(n) FROM dead) > 20000 THEN 'the newest 20001 of all webhooks' END,
	'oldest_s', pg_catalog.floor(extract(epoch FROM pg_catalog.now() - w.oldest)),
	'next_s', greatest(pg_catalog.ceil(extract(epoch FROM w.due - pg_catalog.now())), 0),
	'last_failure', last.answer, 'last_status', last.status
) ORDER BY name), '[]')
FROM names LEFT JOIN :schema.webhook_pauses AS p ON p.target = name LEFT JOIN served AS s ON s.target = name
LEFT JOIN dead AS d ON d.target = name
CROSS JOIN LATERAL (
	SELECT pg_catalog.count(*) AS n, pg_catalog.count(*) FILTER (WHERE lane = 1) AS failing, pg_catalog.min(created_at) AS oldest,
		pg_catalog.min(due_at) AS due
	FROM (VALUES (0), (1)) AS l (lane), LATERAL (
		SELECT created_at, due_at FROM :schema.outbox AS o
		WHERE o.target = name AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = l.lane AND state = 'pending'
		ORDER BY due_at LIMIT 20001
	) AS r
) AS w LEFT JOIN LATERAL (
	SELECT answer, status FROM :schema.outbox AS o
	WHERE o.target = name AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = 1 AND state = 'pending'
	ORDER BY due_at DESC LIMIT 1
) AS last ON true
WHERE $1::text IS NULL OR name = $1::text
