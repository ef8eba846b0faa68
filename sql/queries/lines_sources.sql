-- The sources that wsonce lines reports on, and since when.
-- $1, $2  minutes since 1970: from the first one, before the second one
-- $3      a source; '': all
-- Result  source, the first minute in which a line was connected, or any before $1; if there is none, the first with a row;
--         how many minutes its longest row covers ($1 is then rounded down to a multiple of it); how many rows it has
-- The key begins with the minute, so a search for a source reads all rows. Most sources have a row in the hour before; one
-- search finds those of all others.
-- Rows that should have been deleted by now are from a wrong clock, which may say -infinity.
WITH sources AS MATERIALIZED (
	SELECT source, coalesce(pg_catalog.min(minute) FILTER (WHERE up IS DISTINCT FROM '{}'), pg_catalog.min(minute)) AS first,
		coalesce(pg_catalog.max(minutes), 1) AS length, pg_catalog.count(*) AS rows, $1::bigint - $1::bigint % coalesce(pg_catalog.max(minutes), 1) - 1 AS before
	FROM :schema.line_minutes
	WHERE minute >= pg_catalog.to_timestamp(($1::bigint - $1::bigint % 5) * 60)
		AND (minute >= pg_catalog.to_timestamp($1::bigint * 60) OR minutes > 1)
		AND minute < pg_catalog.to_timestamp($2::bigint * 60) AND ($3::text = '' OR source = $3::text)
	GROUP BY source
), earlier AS MATERIALIZED (
	SELECT DISTINCT source FROM :schema.line_minutes
	WHERE minute > pg_catalog.now() - interval '31 days' AND minute < pg_catalog.to_timestamp(($1::bigint - $1::bigint % 5) * 60)
		AND up IS DISTINCT FROM '{}' AND ($3::text = '' OR source = $3::text)
)
SELECT source, CASE WHEN (
		SELECT true FROM pg_catalog.generate_series(before, before - 59, -1) AS g WHERE (
			SELECT true FROM :schema.line_minutes AS m WHERE m.minute = pg_catalog.to_timestamp(g * 60)
				AND m.source = s.source AND up IS DISTINCT FROM '{}' LIMIT 1
		) LIMIT 1
	) OR source IN (SELECT source FROM earlier) THEN before ELSE extract(epoch FROM first)::bigint / 60 END, length, rows
FROM sources AS s
ORDER BY source COLLATE "C"
