-- $1 the cutoff, $2 a key before all others. Returns a key before the rows that go, NULL if none does, and the last id that
-- goes. The oldest row that may go is asked for first: that takes no estimate of how many are older, and it tells by an
-- index if none is. The sums keep the planner from looking for the lowest id, row by row, in the primary key.
SELECT pg_catalog.min(id + 0) - 1, pg_catalog.max(id + 0) FROM (
	SELECT id FROM :schema.{table} WHERE ({part}) AND {moment} IS NOT NULL AND {moment} < $1::timestamptz
		AND $1::timestamptz > (SELECT pg_catalog.min({moment}) FROM :schema.{table} WHERE {part})
	UNION ALL
	SELECT id FROM :schema.{table} WHERE ({other}) AND {moment} IS NOT NULL AND {moment} < $1::timestamptz
		AND $1::timestamptz > (SELECT pg_catalog.min({moment}) FROM :schema.{table} WHERE {other}) AND {if_other}
) AS old WHERE $2::text <> ''
