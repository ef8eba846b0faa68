-- The same as retention_ask.sql.
WITH recent AS (
	SELECT listener, max_age_s, coalesce(max_age_s > CAST(?1 AS INTEGER), true) AS is_open
	FROM wsonce_listeners WHERE seen_at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 hour')
), first AS (
	SELECT * FROM recent WHERE is_open ORDER BY listener LIMIT 1
)
SELECT (SELECT count(*) FROM recent), (SELECT count(*) FROM recent WHERE is_open), (SELECT listener FROM first),
	(SELECT max_age_s FROM first)
