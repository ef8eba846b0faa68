-- The text that wsonce stats duplicates prints, made from told (d), the object of duplicates.sql.
-- $1  as in duplicates.sql
-- Result  d, and the text
SELECT d, CASE WHEN d->>'first_day' IS NULL
	THEN pg_catalog.format('nothing is counted %s; listeners report once a minute and when they stop',
		CASE $1::bigint WHEN 0 THEN 'yet' ELSE 'since then' END)
	ELSE pg_catalog.concat_ws(E'\n', pg_catalog.format('duplicates from %s to %s (UTC)', d->>'first_day', d->>'last_day'), '',
		(SELECT pg_catalog.string_agg(pg_catalog.format('  %-28s %12s%s', name, value, remark), E'\n' ORDER BY place)
		FROM (VALUES (1, 'events stored', d->>'events', ''), (2, 'further copies', d->>'copies', ''),
			(3, 'keys that came twice', d->>'keys_twice', estimated),
			(4, 'keys that came three times', d->>'keys_three_times', estimated),
			(5, 'keys that came more often', d->>'keys_more_often', estimated),
			(6, 'closest pair', delays.closest, '  ' || pg_catalog.translate(d#>>'{closest,event_id}', E'\n\t', '  ')),
			(7, 'farthest pair', delays.farthest, '  ' || pg_catalog.translate(d#>>'{farthest,event_id}', E'\n\t', '  '))
		) AS line (place, name, value, remark) WHERE place < 3 OR has_copies AND value IS NOT NULL),
		CASE WHEN has_copies THEN E'\n  delay from        copies\n' || delays.plot END,
		pg_catalog.format(E'\n  --dedup-window    copies within    Redis, at %s events/s (%s bytes a mark)',
			pg_catalog.round((d->>'events_per_second')::numeric, CASE WHEN (d->>'events_per_second')::float8 < 10 THEN 2 ELSE 0 END),
			d->>'bytes_per_mark'),
		(SELECT pg_catalog.string_agg(pg_catalog.format('  %14s    %11s %%    %10s MiB%s', w->>'seconds',
			pg_catalog.round(100 * (w->>'share_within')::numeric, 2), pg_catalog.round((w->>'redis_bytes')::numeric / 1048576, 1),
			CASE w->>'seconds' WHEN d->>'dedup_window_s' THEN '  (now)' ELSE '' END), E'\n' ORDER BY place)
		FROM pg_catalog.json_array_elements(d->'windows') WITH ORDINALITY AS windows (w, place)), '', d->>'advice') END
FROM told, LATERAL (SELECT (d->>'copies')::numeric > 0 AS has_copies,
	CASE d->>'keys_are_estimated' WHEN 'true' THEN '  estimated' ELSE '' END AS estimated) AS flags,
LATERAL (
	-- A line for each delay from the first to the last, even without copies. Each begins at twice the one before.
	WITH seen AS (
		SELECT (one->>'from_ms')::bigint AS ms, (one->>'copies')::numeric AS copies
		FROM pg_catalog.json_array_elements(d->'delays') AS delays (one)
	), steps AS (
		SELECT ms, pg_catalog.row_number() OVER (ORDER BY ms) AS place FROM (SELECT 0::bigint UNION ALL
			SELECT (2::numeric ^ n)::bigint FROM pg_catalog.generate_series(0, 40) AS powers (n)) AS step (ms)
		WHERE ms BETWEEN (SELECT pg_catalog.min(ms) FROM seen) AND (SELECT pg_catalog.max(ms) FROM seen)
	), spans AS ( -- milliseconds, and their text in a fitting unit: 4 ms, 2.1 h
		SELECT what, ms, (SELECT pg_catalog.concat(pg_catalog.trim_scale(pg_catalog.round(ms / size,
			CASE WHEN ms < 10 * size THEN 2 WHEN ms < 100 * size THEN 1 ELSE 0 END)), ' ', unit)
			FROM (VALUES (86400000.0, 'd'), (3600000, 'h'), (60000, 'min'), (1000, 's'), (1, 'ms')) AS units (size, unit)
			WHERE ms >= size OR size = 1 ORDER BY size DESC LIMIT 1) AS text
		FROM (SELECT 'step' AS what, ms FROM steps UNION ALL SELECT 'closest', (d#>>'{closest,ms}')::bigint
			UNION ALL SELECT 'farthest', (d#>>'{farthest,ms}')::bigint) AS span
		WHERE ms IS NOT NULL
	)
	SELECT (SELECT text FROM spans WHERE what = 'closest') AS closest,
		(SELECT text FROM spans WHERE what = 'farthest') AS farthest,
		(SELECT pg_catalog.string_agg(pg_catalog.format('  %9s %14s %s', text, coalesce(copies, 0), pg_catalog.repeat('#',
			pg_catalog.ceil(40 * coalesce(copies, 0) / (SELECT pg_catalog.max(copies) FROM seen))::int)), E'\n' ORDER BY ms)
		FROM spans LEFT JOIN seen USING (ms) WHERE what = 'step') AS plot
) AS delays
