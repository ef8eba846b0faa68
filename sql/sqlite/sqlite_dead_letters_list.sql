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
), shown AS (
	SELECT *, printf('%8d  %s', n, replace(reason, char(10), ' ')) || printf('
          seen %d times, from %s to %s
', seen, first, last) || coalesce((SELECT group_concat(printf('          id %d%s
', value ->> 'id', coalesce('  ' || replace(nullif(value ->> 'event_id', ''), char(10), ' '), '')), '') FROM json_each(examples)), '') AS text
	FROM grouped ORDER BY n DESC, reason
), found AS (
	SELECT json_array_length('[' || trim(?1, '{}') || ']') AS n, coalesce(max(groups), 0) AS reasons,
		coalesce(max(groups), 0) - count(*) AS more, json_group_array(json_object('reason', reason, 'letters', n, 'seen', seen,
			'first_seen', first, 'last_seen', last, 'examples', json(examples))) AS groups, group_concat(char(10) || text, '') AS text
	FROM shown
)
SELECT json_object('letters', n, 'newest', nullif(CAST(?4 AS INTEGER), 0), 'reasons', reasons, 'groups', json(groups),
		'of_other_consumers', json('[]'), 'dead_deliveries', 0),
	CASE ?4 WHEN '0' THEN printf('dead letters: %d, reasons: %d', n, reasons)
		ELSE printf('dead letters: %d of the newest %s, reasons: %d (--newest 0 looks at all)', n, ?4, reasons) END || char(10)
		|| coalesce(text, '') || CASE more WHEN 0 THEN '' ELSE printf('
and %d more reasons: --limit
', more) END
FROM found
