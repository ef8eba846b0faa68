-- Rows of line_minutes, for wsonce lines.
-- $1, $2  minutes since 1970: from the first one, before the second one
-- $3      a source; '': all
-- Result  source, minute, instance, received, received_sum, stored, stored_sum, unknown (of this minute and the next one: a
--         copy comes up to a minute after the one that was stored), reconnects, up, the first minute ever of the source
WITH found AS MATERIALIZED (
	SELECT * FROM :schema.line_minutes
	WHERE minute >= pg_catalog.to_timestamp($1::bigint * 60) AND minute < pg_catalog.to_timestamp($2::bigint * 60)
		AND ($3::text = '' OR source = $3::text)
), firsts AS MATERIALIZED (
	SELECT source, (
		SELECT f.minute FROM :schema.line_minutes AS f WHERE f.source = s.source ORDER BY f.minute LIMIT 1
	) AS first
	FROM (SELECT DISTINCT source FROM found) AS s
)
SELECT source, extract(epoch FROM minute)::bigint / 60, pg_catalog.left(listener, -17), received, received_sum, stored,
	stored_sum, unknown + coalesce((
		SELECT n.unknown FROM :schema.line_minutes AS n
		WHERE n.minute = m.minute + interval '1 minute' AND n.source = m.source AND n.listener = m.listener
	), 0), reconnects, pg_catalog.array_to_string(up, ','), extract(epoch FROM first)::bigint / 60
FROM found AS m JOIN firsts USING (source)
ORDER BY source COLLATE "C", minute, listener
