-- Returns how many listeners ran within the last hour, how many of them accept events that are older than $1 seconds, and
-- the name and --max-age in seconds (NULL: none) of the first of these.
SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE is_open), pg_catalog.min(listener) FILTER (WHERE is_open),
	pg_catalog.min(max_age_s) FILTER (WHERE listener = first_open)
FROM (
	SELECT *, pg_catalog.min(listener) FILTER (WHERE is_open) OVER () AS first_open
	FROM (SELECT listener, max_age_s, coalesce(max_age_s > $1::bigint, true) AS is_open
		FROM :schema.wsonce_listeners WHERE seen_at > pg_catalog.now() - interval '1 hour') AS recent
) AS marked
