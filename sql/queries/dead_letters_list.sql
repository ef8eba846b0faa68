-- Groups the dead letters with the ids $1 by reason: at most $2 groups, the most frequent first, with $3 examples each.
-- Numbers and quoted words in reasons, which would make a group of each, count as the same; the SQLSTATE at the end does
-- not. Returns the heading, the number of letters, how often they were seen, the first and the last time, the group in
-- JSON, and the number of groups.
WITH ranked AS (
	SELECT id, event_id, reason, first_seen, last_seen, seen, kind,
		row_number() OVER (PARTITION BY kind ORDER BY last_seen DESC, id DESC) AS rank
	FROM :schema.dead_letters,
		pg_catalog.regexp_replace(reason, '"[^"]*"|[0-9]+(?![0-9A-Z]*[)]$)', '…', 'g') AS kind
	WHERE id = ANY($1::bigint[])
), grouped AS (
	SELECT CASE WHEN pg_catalog.min(reason) = pg_catalog.max(reason) THEN pg_catalog.min(reason) ELSE kind END AS reason,
		count(*) AS n, pg_catalog.sum(seen)::bigint AS seen,
		pg_catalog.to_char(pg_catalog.min(first_seen) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first,
		pg_catalog.to_char(pg_catalog.max(last_seen) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last,
		pg_catalog.json_agg(pg_catalog.json_build_object('id', id, 'event_id', event_id, 'reason', reason, 'last_seen',
				pg_catalog.to_char(last_seen AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) ORDER BY rank)
			FILTER (WHERE rank <= $3::bigint) AS examples,
		count(*) OVER () AS groups
	FROM ranked GROUP BY kind ORDER BY 2 DESC, 1 LIMIT $2::bigint
)
SELECT reason, n, seen, first, last, pg_catalog.json_build_object('reason', reason, 'letters', n, 'seen', seen,
		'first_seen', first, 'last_seen', last, 'examples', examples), groups
FROM grouped ORDER BY n DESC, reason
