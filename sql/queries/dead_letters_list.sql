-- Groups the dead letters with the ids $1 by reason: at most $2 groups, the most frequent first, with $3 examples each.
-- Numbers and quoted words in reasons count as equal, or each would make a group; the SQLSTATE at the end does not. $4:
-- the ids are from the newest $4; 0: from all. Also counts open letters and deliveries other than the letters of consumer
-- $5; each of these counts stops at 100,001. Returns what --json prints, and the text.
WITH RECURSIVE ranked AS (
	SELECT id, event_id, reason, first_seen, last_seen, seen, kind,
		pg_catalog.row_number() OVER (PARTITION BY kind ORDER BY last_seen DESC, id DESC) AS rank
	FROM :schema.dead_letters,
		pg_catalog.regexp_replace(reason, '"[^"]*"|[0-9]+(?![0-9A-Z]*[)]$)', '...', 'g') AS kind
	WHERE id = ANY($1::bigint[])
), grouped AS (
	SELECT CASE WHEN pg_catalog.min(reason) = pg_catalog.max(reason) THEN pg_catalog.min(reason) ELSE kind END AS reason,
		pg_catalog.count(*) AS n, pg_catalog.sum(seen)::bigint AS seen,
		pg_catalog.to_char(pg_catalog.min(first_seen) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first,
		pg_catalog.to_char(pg_catalog.max(last_seen) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last,
		pg_catalog.json_agg(pg_catalog.json_build_object('id', id, 'event_id', event_id, 'reason', reason, 'last_seen',
				pg_catalog.to_char(last_seen AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) ORDER BY rank)
			FILTER (WHERE rank <= $3::bigint) AS examples,
		pg_catalog.count(*) OVER () AS groups
	FROM ranked GROUP BY kind ORDER BY 2 DESC, 1 LIMIT $2::bigint
), names AS (
	(SELECT consumer FROM :schema.dead_letters WHERE resolved_at IS NULL OR last_seen > resolved_at
		ORDER BY consumer, id LIMIT 1)
	UNION ALL
	SELECT (SELECT consumer FROM :schema.dead_letters WHERE (resolved_at IS NULL OR last_seen > resolved_at)
		AND consumer > n.consumer ORDER BY consumer, id LIMIT 1)
	FROM names AS n WHERE n.consumer IS NOT NULL
), other AS (
	SELECT consumer, n, CASE n WHEN 100001 THEN 'more than 100000' ELSE n::text END AS words
	FROM names AS o, LATERAL (SELECT pg_catalog.count(*) FROM (
		SELECT FROM :schema.dead_letters AS d
		WHERE d.consumer = o.consumer AND (resolved_at IS NULL OR last_seen > resolved_at)
		ORDER BY d.consumer, d.id LIMIT 100001
	) AS few) AS counted (n) WHERE consumer <> $5::text
), dead AS (
	SELECT pg_catalog.count(*) AS n FROM (SELECT FROM :schema.outbox WHERE state = 'dead' ORDER BY id LIMIT 100001) AS few
), found AS (
	SELECT pg_catalog.cardinality($1::bigint[]) AS n, coalesce(pg_catalog.max(groups), 0) AS reasons,
		coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('reason', reason, 'letters', n, 'seen', seen, 'first_seen',
			first, 'last_seen', last, 'examples', examples) ORDER BY n DESC, reason), '[]') AS groups,
		pg_catalog.string_agg(pg_catalog.format(E'\n%8s  %s\n          seen %s times, from %s to %s\n%s', n,
			pg_catalog.replace(reason, E'\n', ' '), seen, first, last, (
				SELECT pg_catalog.string_agg(pg_catalog.format(E'          id %s%s\n', e->>'id',
					'  ' || pg_catalog.replace(nullif(e->>'event_id', ''), E'\n', ' ')), '' ORDER BY place)
				FROM pg_catalog.json_array_elements(examples) WITH ORDINALITY AS one (e, place))), ''
			ORDER BY n DESC, reason) AS text, coalesce(pg_catalog.max(groups), 0) - pg_catalog.count(*) AS more
	FROM grouped
), others AS (
	SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('consumer', consumer, 'letters', n) ORDER BY consumer),
			'[]') AS list,
		pg_catalog.string_agg(words || CASE consumer WHEN '' THEN ' without a consumer' ELSE ' of ' || consumer END, ', '
			ORDER BY consumer) AS words
	FROM other
)
SELECT pg_catalog.json_build_object('letters', f.n, 'newest', nullif($4::bigint, 0), 'reasons', reasons, 'groups', groups,
		'of_other_consumers', list, 'dead_deliveries', dead.n),
	pg_catalog.concat(pg_catalog.format(CASE $4::bigint WHEN 0 THEN 'dead letters: %s, reasons: %3$s'
			ELSE 'dead letters: %s of the newest %s, reasons: %s (--newest 0 looks at all)' END, f.n, $4::bigint, reasons),
		E'\n', text, E'\nand ' || nullif(more, 0) || E' more reasons: --limit\n',
		E'\nof other fleets: ' || words || E' (--consumer NAME lists them)\n',
		E'\ndead deliveries: ' || CASE dead.n WHEN 0 THEN NULL WHEN 100001 THEN 'more than 100000' ELSE dead.n::text END
			|| E' (--deliveries lists them)\n')
FROM found AS f, others, dead
