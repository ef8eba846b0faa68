-- Rows of line_minutes of one source, for wsonce lines.
-- $1, $2  minutes since 1970: from the first one, up to the second one
-- $3      the source
-- $4      how many minutes are judged together
-- Result  minute, listener, received, received_sum, stored, stored_sum, unknown, reconnects, up, gap, silent_ms, filled,
--         behind_p50, behind_p99, disagree, disagreements; of minutes that are judged together, rows of an instance
--         follow each other
SELECT g, listener, received, received_sum, stored, stored_sum, unknown, reconnects, pg_catalog.array_to_string(up, ','), gap,
	silent_ms, filled, behind_p50, behind_p99, disagree, disagreements
FROM pg_catalog.generate_series($1::bigint, $2::bigint) AS g CROSS JOIN LATERAL (
	SELECT * FROM :schema.line_minutes WHERE minute = pg_catalog.to_timestamp(g * 60) AND source = $3::text OFFSET 0
) AS m
ORDER BY g / $4::bigint, pg_catalog.left(listener, -17) COLLATE "C", listener, g
