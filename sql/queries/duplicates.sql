-- The further copies of events that listeners counted, for wsonce stats duplicates.
-- $1  microseconds since 1970: only days (UTC) from this one on; 0: all days
-- $2  --dedup-window, if no listener has reported its own
-- Result  one object: what --json prints
--
-- The rate of a day is over the seconds until now or its end, but at least an hour: the first check-in of a day reports
-- copies from the last minute of the day before. Within a bucket of delays, copies are assumed to be spread evenly. Bucket
-- n has those from 2^(n - 2) ms on; the last one, 41, has no end, so its copies are within no window.
-- A mark of an id of 14 characters takes 165 bytes of Redis's memory (measured).
-- keys has the 256 smallest hashes, see sql/migrations/014_duplicate_keys.sql. Hashes are spread evenly, so each range as
-- large as that up to the 256th hash has 256 of them.
WITH days AS MATERIALIZED (
	SELECT day, events, copies, keys, closest, farthest, events / greatest(3600, extract(epoch FROM least(pg_catalog.now(),
		(day + 1)::timestamp AT TIME ZONE 'UTC') - day::timestamp AT TIME ZONE 'UTC'))::float8 AS rate
	FROM :schema.wsonce_duplicates
	WHERE $1::bigint = 0 OR day >= (pg_catalog.to_timestamp($1::bigint / 1000000.0) AT TIME ZONE 'UTC')::date
), total AS (
	SELECT pg_catalog.to_char(pg_catalog.min(day), 'YYYY-MM-DD') AS first_day,
		pg_catalog.to_char(pg_catalog.max(day), 'YYYY-MM-DD') AS last_day, coalesce(pg_catalog.sum(events), 0) AS events,
		coalesce(pg_catalog.max(rate), 0) AS rate, coalesce((SELECT dedup_window_s FROM :schema.wsonce_listeners
			ORDER BY seen_at DESC, listener LIMIT 1), $2::bigint) AS window_s, 165 AS bytes_per_mark
	FROM days
), delays AS (
	SELECT pg_catalog.sum(c.copies) AS copies, CASE WHEN n > 1 THEN 2::float8 ^ (n - 2) ELSE 0 END AS from_ms,
		CASE WHEN n < 41 THEN 2::float8 ^ (n - 1) END AS to_ms
	FROM days, LATERAL pg_catalog.unnest(days.copies) WITH ORDINALITY AS c (copies, n) WHERE n <= 41 GROUP BY n
), windows AS (
	SELECT seconds, pg_catalog.round(rate * seconds * bytes_per_mark)::bigint AS redis_bytes, coalesce((
		SELECT pg_catalog.sum(copies * least(1, greatest(0, (seconds * 1000 - from_ms) / (to_ms - from_ms))))
			/ nullif(pg_catalog.sum(copies), 0) FROM delays
	)::float8, 1) AS share
	FROM total, LATERAL (SELECT window_s UNION SELECT * FROM (VALUES (60::bigint), (300), (900), (3600), (14400), (43200),
		(86400), (259200), (604800), (2592000)) AS v) AS w (seconds)
), advice (advice) AS (
	SELECT CASE
	WHEN NOT EXISTS (SELECT FROM delays WHERE copies > 0) THEN 'No event came more than once: --dedup-window may be short.'
	WHEN now.share >= 0.99 THEN pg_catalog.format('--dedup-window %s is long enough: %s %% of the copies come within it. '
		'The unique key absorbs the others, which is as safe.', window_s, pg_catalog.round((100 * now.share)::numeric, 2))
	WHEN fit.seconds IS NOT NULL THEN pg_catalog.format('--dedup-window %s would spare Postgres %s %% of the copies, which '
		'now meet the unique key, and take about %s MiB of Redis instead of %s MiB. Both are safe.', fit.seconds,
		pg_catalog.round((100 * (fit.share - now.share))::numeric, 1), pg_catalog.round(fit.redis_bytes / 1048576.0, 1),
		pg_catalog.round((rate * window_s * bytes_per_mark / 1048576)::numeric, 1))
	ELSE pg_catalog.format('%s %% of the copies come more than 30 days late: no --dedup-window is long enough for those, '
		'and the unique key absorbs them.', pg_catalog.round((100 * (1 - longest.share))::numeric, 1)) END
	FROM total JOIN windows AS now ON now.seconds = window_s
	CROSS JOIN LATERAL (SELECT share FROM windows ORDER BY seconds DESC LIMIT 1) AS longest
	LEFT JOIN LATERAL (SELECT * FROM windows WHERE share >= 0.99 ORDER BY seconds LIMIT 1) AS fit ON true
), sample AS (
	SELECT key, pg_catalog.sum(value::bigint) AS copies FROM days, LATERAL pg_catalog.jsonb_each_text(keys)
	GROUP BY key ORDER BY key COLLATE "C" LIMIT 256
), found AS (
	SELECT pg_catalog.count(*) FILTER (WHERE copies = 1) AS twice, pg_catalog.count(*) FILTER (WHERE copies = 2) AS thrice,
		pg_catalog.count(*) FILTER (WHERE copies > 2) AS often, pg_catalog.count(*) = 256 AS is_estimate, CASE WHEN pg_catalog.count(*) = 256
			THEN 255 / 256.0 * 2::float8 ^ 52 / ('x' || pg_catalog.left(pg_catalog.max(key COLLATE "C"), 13))::bit(52)::bigint
			ELSE 1 END AS factor
	FROM sample
)
SELECT pg_catalog.json_build_object('first_day', first_day, 'last_day', last_day, 'events', events,
	'copies', (SELECT coalesce(pg_catalog.sum(copies), 0) FROM delays),
	'keys_twice', pg_catalog.round(twice * factor)::bigint, 'keys_three_times', pg_catalog.round(thrice * factor)::bigint,
	'keys_more_often', pg_catalog.round(often * factor)::bigint, 'keys_are_estimated', is_estimate,
	'closest', (SELECT pg_catalog.json_build_object('event_id', closest->>1, 'ms', (closest->>0)::bigint) FROM days
		WHERE closest IS NOT NULL ORDER BY closest LIMIT 1),
	'farthest', (SELECT pg_catalog.json_build_object('event_id', farthest->>1, 'ms', (farthest->>0)::bigint) FROM days
		WHERE farthest IS NOT NULL ORDER BY farthest DESC LIMIT 1),
	'delays', (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('from_ms', from_ms::bigint, 'copies', copies)
		ORDER BY from_ms), '[]') FROM delays WHERE copies > 0),
	'dedup_window_s', window_s, 'share_within', (SELECT share FROM windows WHERE seconds = window_s),
	'events_per_second', rate, 'bytes_per_mark', bytes_per_mark,
	'windows', (SELECT pg_catalog.json_agg(pg_catalog.json_build_object('seconds', seconds, 'share_within', share,
		'redis_bytes', redis_bytes) ORDER BY seconds) FROM windows), 'advice', advice)
FROM total, found, advice
