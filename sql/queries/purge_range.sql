-- $1 the cutoff, $2 a key before all others. Returns a key before the rows to purge, NULL if there are none, and the last
-- id to purge. First looks for the oldest row: this needs no estimate of how many are older, and shows by an index if none
-- is. The sums keep the planner from searching the primary key, row by row, for the lowest id.
SELECT pg_catalog.min(id + 0) - 1, pg_catalog.max(id + 0) FROM (
	SELECT id FROM :schema.{table} WHERE ({part}) AND {moment} IS NOT NULL AND {moment} < $1::timestamptz
		AND $1::timestamptz > (SELECT pg_catalog.min({moment}) FROM :schema.{table} WHERE {part})
	UNION ALL
	SELECT id FROM :schema.{table} WHERE ({other}) AND {moment} IS NOT NULL AND {moment} < $1::timestamptz
		AND $1::timestamptz > (SELECT pg_catalog.min({moment}) FROM :schema.{table} WHERE {other}) AND {if_other}
) AS old WHERE $2::text <> ''
