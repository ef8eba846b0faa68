-- Rows of line_minutes, for wsonce lines. There may be millions, so the program sorts them. NULL is 0, and in `up` the
-- whole minute, also for listeners that write these values out.
-- $1, $2  minutes since 1970: from the first one, up to the second one
-- $3      the source; '': all
-- Result  source, minute, listener, received, received_sum, stored, stored_sum, unknown, reconnects, up, gap, silent_ms,
--         filled, behind_p50, behind_p99, disagree, disagreements
SELECT source, g, listener, received, received_sum, nullif(stored, 0), nullif(stored_sum, 0), nullif(unknown, 0),
	nullif(reconnects, 0), CASE WHEN up <> '{0,60000}' THEN pg_catalog.array_to_string(up, ',') END, gap, silent_ms, filled,
	behind_p50, behind_p99, disagree, disagreements
FROM pg_catalog.generate_series($1::bigint, $2::bigint) AS g CROSS JOIN LATERAL (
	SELECT * FROM :schema.line_minutes
	WHERE minute = pg_catalog.to_timestamp(g * 60) AND ($3::text = '' OR source = $3::text) OFFSET 0
) AS m
