-- The same as dead_letters_list.sql.
WITH ranked AS (
	SELECT id, event_id, reason, first_seen, last_seen, seen, wsonce_fold(reason) AS kind,
		row_number() OVER (PARTITION BY wsonce_fold(reason) ORDER BY last_seen DESC, id DESC) AS rank
	FROM dead_letters WHERE id IN (SELECT value FROM json_each('[' || trim(?1, '{}') || ']'))
), grouped AS (
	SELECT CASE WHEN min(reason) = max(reason) THEN min(reason) ELSE kind END AS reason, count(*) AS n, sum(seen) AS seen,
		substr(min(first_seen), 1, 23) || 'Z' AS first, substr(max(last_seen), 1, 23) || 'Z' AS last,
		(SELECT json_group_array(json_object('id', id, 'event_id', event_id, 'reason', reason, 'last_seen',
				substr(last_seen, 1, 23) || 'Z'))
			FROM (SELECT * FROM ranked AS few WHERE few.kind = r.kind AND rank <= CAST(?3 AS INTEGER) ORDER BY rank)
		) AS examples,
		count(*) OVER () AS groups
	FROM ranked AS r GROUP BY kind ORDER BY 2 DESC, 1 LIMIT CAST(?2 AS INTEGER)
)
SELECT reason, n, seen, first, last, json_object('reason', reason, 'letters', n, 'seen', seen, 'first_seen', first,
	'last_seen', last, 'examples', json(examples)), groups
FROM grouped ORDER BY n DESC, reason
