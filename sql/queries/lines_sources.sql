-- The sources that wsonce lines reports on, and since when.
-- $1, $2  minutes since 1970: from the first one, before the second one
-- $3      a source; '': all
-- Result  source, the first minute in which a line was connected, or any before $1; if there is none, the first with a row;
--         how many minutes its longest row covers ($1 is then rounded down to a multiple of it); how many rows it has
-- Minutes are probed one by one, newest first: the key begins with the minute, so a search for a source would read all
-- rows. In FROM, generate_series would make all minutes before the first is probed.
-- Rows that should have been deleted by now are from a wrong clock, which may say -infinity.
SELECT source, CASE WHEN (
		SELECT true FROM (SELECT pg_catalog.generate_series(pg_catalog.to_timestamp(before * 60), (
			SELECT greatest(min(minute), now() - interval '31 days') FROM :schema.line_minutes
		), interval '-1 minute') AS g) AS earlier
		WHERE (
			SELECT true FROM :schema.line_minutes AS m
			WHERE m.minute = g AND m.source = s.source AND up IS DISTINCT FROM '{}' LIMIT 1
		) LIMIT 1
	) THEN before ELSE extract(epoch FROM first)::bigint / 60 END, length, rows
FROM (
	SELECT source, coalesce(min(minute) FILTER (WHERE up IS DISTINCT FROM '{}'), min(minute)) AS first,
		coalesce(max(minutes), 1) AS length, count(*) AS rows, $1::bigint - $1::bigint % coalesce(max(minutes), 1) - 1 AS before
	FROM :schema.line_minutes
	WHERE minute >= pg_catalog.to_timestamp(($1::bigint - $1::bigint % 5) * 60)
		AND (minute >= pg_catalog.to_timestamp($1::bigint * 60) OR minutes > 1)
		AND minute < pg_catalog.to_timestamp($2::bigint * 60) AND ($3::text = '' OR source = $3::text)
	GROUP BY source
) AS s
ORDER BY source COLLATE "C"
