-- The rows with the ids $1, in their order: the id, and the line for wsonce export. As in explain.sql, the line of a
-- row whose numbers alone exceed 16 MiB of digits is NULL.
SELECT e.id, CASE WHEN (
		SELECT coalesce(pg_catalog.sum(pg_catalog.scale(n) + CASE WHEN pg_catalog.abs(n) < 1e50 THEN 0
			WHEN pg_catalog.abs(n) < 1e500 THEN 500 WHEN pg_catalog.abs(n) < 1e5000 THEN 5000 ELSE 131072 END), 0)
		FROM pg_catalog.jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') AS j,
			LATERAL (SELECT j::numeric) AS c (n)
	) <= 16777216 THEN pg_catalog.concat('{"wsonce_row":', e.id,
		',"received_at":', coalesce('"' || pg_catalog.to_char(received_at AT TIME ZONE 'UTC', f) || '"', 'null'),
		',"processed_at":"', pg_catalog.to_char(processed_at AT TIME ZONE 'UTC', f), '"',
		',"event_time":', coalesce('"' || pg_catalog.to_char(event_time AT TIME ZONE 'UTC', f) || '"', 'null'),
		',"source":', coalesce(pg_catalog.to_json(source)::text, 'null'),
		',"instance":', coalesce(pg_catalog.to_json(instance)::text, 'null'),
		',"purged_at":', coalesce('"' || pg_catalog.to_char(purged_at AT TIME ZONE 'UTC', f) || '"', 'null'),
		',"event_id":', pg_catalog.to_json(event_id), ',"event_type":', pg_catalog.to_json(event_type),
		',"payload":', payload, '}') END
FROM pg_catalog.unnest($1::bigint[]) WITH ORDINALITY AS w (id, place)
JOIN :schema.events AS e ON e.id = w.id
CROSS JOIN (VALUES ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) AS form (f)
ORDER BY place
