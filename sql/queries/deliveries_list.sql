-- Groups the deliveries with the ids $1 by target and by why the last attempt failed, as dead_letters_list.sql groups
-- letters by reason. $4 as there; $5 is ignored. Returns what --json prints, and the text.
WITH ranked AS (
	SELECT id, target, event_id, status, attempts, coalesce(settled_at, created_at) AS at,
		pg_catalog.concat_ws(' ', status, answer) AS reason, kind, pg_catalog.row_number() OVER (
			PARTITION BY target, kind ORDER BY coalesce(settled_at, created_at) DESC, id DESC) AS rank
	FROM :schema.outbox, pg_catalog.concat_ws(' ', status,
		pg_catalog.regexp_replace(answer, '"[^"]*"|[0-9]+(?![0-9A-Z]*[)]$)', '...', 'g')) AS kind
	WHERE id = ANY($1::bigint[])
), grouped AS (
	SELECT target, pg_catalog.min(status) AS status, CASE WHEN pg_catalog.min(reason) = pg_catalog.max(reason)
			THEN pg_catalog.min(reason) ELSE kind END AS reason,
		pg_catalog.count(*) AS n, pg_catalog.sum(attempts)::bigint AS attempts,
		pg_catalog.to_char(pg_catalog.min(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first,
		pg_catalog.to_char(pg_catalog.max(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last,
		pg_catalog.json_agg(pg_catalog.json_build_object('id', id, 'event_id', event_id, 'reason', reason, 'settled_at',
				pg_catalog.to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) ORDER BY rank)
			FILTER (WHERE rank <= $3::bigint) AS examples,
		pg_catalog.count(*) OVER () AS groups
	FROM ranked GROUP BY target, kind ORDER BY 4 DESC, 1, 3 LIMIT $2::bigint
), found AS (
	SELECT pg_catalog.cardinality($1::bigint[]) AS n, coalesce(pg_catalog.max(groups), 0) AS reasons,
		coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('target', target, 'status', status, 'reason', reason,
			'deliveries', n, 'attempts', attempts, 'first_settled', first, 'last_settled', last, 'examples', examples)
			ORDER BY n DESC, target, reason), '[]') AS groups,
		pg_catalog.string_agg(pg_catalog.format(E'\n%8s  %s\n          tried %s times, from %s to %s\n%s', n,
			pg_catalog.concat_ws(': ', target, pg_catalog.replace(nullif(reason, ''), E'\n', ' ')), attempts, first, last, (
				SELECT pg_catalog.string_agg(pg_catalog.format(E'          id %s%s\n', e->>'id',
					'  ' || pg_catalog.replace(nullif(e->>'event_id', ''), E'\n', ' ')), '' ORDER BY place)
				FROM pg_catalog.json_array_elements(examples) WITH ORDINALITY AS one (e, place))), ''
			ORDER BY n DESC, target, reason) AS text, coalesce(pg_catalog.max(groups), 0) - pg_catalog.count(*) AS more
	FROM grouped
)
SELECT pg_catalog.json_build_object('deliveries', n, 'newest', nullif($4::bigint, 0), 'reasons', reasons, 'groups', groups),
	pg_catalog.concat(pg_catalog.format(CASE $4::bigint WHEN 0 THEN 'dead deliveries: %s, reasons: %3$s'
			ELSE 'dead deliveries: %s of the newest %s, reasons: %s (--newest 0 looks at all)' END, n, $4::bigint, reasons),
		E'\n', text, E'\nand ' || nullif(more, 0) || E' more reasons: --limit\n')
FROM found WHERE $5::text IS NOT NULL
