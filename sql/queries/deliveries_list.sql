-- Groups the deliveries with the ids $1 by target and by why the last attempt failed, as dead_letters_list.sql groups
-- letters by reason.
WITH ranked AS (
	SELECT id, target, event_id, status, attempts, coalesce(settled_at, created_at) AS at,
		pg_catalog.concat_ws(' ', status, answer) AS reason, kind, row_number() OVER (
			PARTITION BY target, kind ORDER BY coalesce(settled_at, created_at) DESC, id DESC) AS rank
	FROM :schema.outbox, pg_catalog.concat_ws(' ', status,
		pg_catalog.regexp_replace(answer, '"[^"]*"|[0-9]+(?![0-9A-Z]*[)]$)', '…', 'g')) AS kind
	WHERE id = ANY($1::bigint[])
), grouped AS (
	SELECT target, pg_catalog.min(status) AS status, CASE WHEN pg_catalog.min(reason) = pg_catalog.max(reason)
			THEN pg_catalog.min(reason) ELSE kind END AS reason,
		count(*) AS n, pg_catalog.sum(attempts)::bigint AS attempts,
		pg_catalog.to_char(pg_catalog.min(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first,
		pg_catalog.to_char(pg_catalog.max(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last,
		pg_catalog.json_agg(pg_catalog.json_build_object('id', id, 'event_id', event_id, 'reason', reason, 'settled_at',
				pg_catalog.to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) ORDER BY rank)
			FILTER (WHERE rank <= $3::bigint) AS examples,
		count(*) OVER () AS groups
	FROM ranked GROUP BY target, kind ORDER BY 4 DESC, 1, 3 LIMIT $2::bigint
)
SELECT pg_catalog.concat_ws(': ', target, nullif(reason, '')), n, attempts, first, last,
	pg_catalog.json_build_object('target', target, 'status', status, 'reason', reason, 'deliveries', n,
		'attempts', attempts, 'first_settled', first, 'last_settled', last, 'examples', examples), groups
FROM grouped ORDER BY n DESC, target, reason
