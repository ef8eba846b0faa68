-- What is open apart from the letters of consumer $1. Returns the other consumers with the number of their letters, in
-- JSON and in words; and the number of dead deliveries, also in words. Each count stops at 100,001.
WITH RECURSIVE names AS (
	(SELECT consumer FROM :schema.dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at
		ORDER BY consumer, id LIMIT 1)
	UNION ALL
	SELECT (SELECT consumer FROM :schema.dead_letters WHERE (resolved_at IS NULL OR last_seen > resolved_at)
		AND consumer > n.consumer ORDER BY consumer, id LIMIT 1)
	FROM names AS n WHERE n.consumer IS NOT NULL
), other AS (
	SELECT consumer, n, CASE n WHEN 100001 THEN 'more than 100000' ELSE n::text END AS words
	FROM names AS o, LATERAL (SELECT count(*) FROM (
		SELECT FROM :schema.dead_letters AS d
		WHERE d.consumer = o.consumer AND (resolved_at IS NULL OR last_seen > resolved_at)
		ORDER BY d.consumer, d.id LIMIT 100001
	) AS few) AS counted (n) WHERE consumer <> $1::text
), dead AS (
	SELECT count(*) AS n FROM (SELECT FROM :schema.outbox WHERE state = 'dead' ORDER BY id LIMIT 100001) AS few
)
SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('consumer', consumer, 'letters', n) ORDER BY consumer),
		'[]'),
	pg_catalog.string_agg(words || CASE consumer WHEN '' THEN ' without a consumer' ELSE ' of ' || consumer END, ', '
		ORDER BY consumer),
	(SELECT n FROM dead), (SELECT CASE n WHEN 100001 THEN 'more than 100000' ELSE n::text END FROM dead)
FROM other
