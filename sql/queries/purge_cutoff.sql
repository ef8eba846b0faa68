-- $1 seconds, $2 rows to keep; NULL: not given. Returns the time before which rows are purged, the later one if both are
-- given, and its age in seconds. purge_tables.c replaces the words in braces. The newest rows of the first part are
-- counted by an index; together with those of the other part they are sorted.
WITH c AS MATERIALIZED (SELECT coalesce(greatest(pg_catalog.now() - $1::bigint * interval '1 second', CASE
	WHEN $2::bigint = 0 THEN 'infinity'
	WHEN $2::bigint > 0 AND {if_other} THEN (SELECT {moment} FROM (
			SELECT {moment} FROM :schema.{table} WHERE ({part}) AND {moment} IS NOT NULL
			UNION ALL
			SELECT {moment} FROM :schema.{table} WHERE ({other}) AND {moment} IS NOT NULL
		) AS all_parts ORDER BY {moment} DESC OFFSET greatest($2::bigint, 1) - 1 LIMIT 1)
	WHEN $2::bigint > 0 THEN (SELECT {moment} FROM :schema.{table} WHERE ({part}) AND {moment} IS NOT NULL
		ORDER BY {moment} DESC OFFSET greatest($2::bigint, 1) - 1 LIMIT 1)
	END), '-infinity') AS cutoff)
SELECT cutoff, CASE WHEN pg_catalog.isfinite(cutoff) THEN pg_catalog.floor(extract(epoch FROM pg_catalog.now() - cutoff)) ELSE 0 END
FROM c
