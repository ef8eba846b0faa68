-- A listener's report, once a minute. $1 is a JSON object: listener, max_age_s, dedup_window_s, is_leaving; consumer,
-- handler, targets and target_urls (digests by target), which say what it does with an event; report (see
-- ops/report.c); and if the listener can store: events and copies, counted since the last report; late, [id, ms ago] of
-- copies that only the unique key found, each of which stands for late_weight copies; keys, closest and
-- farthest, as in sql/migrations/014_duplicate_keys.sql; lines, rows of line_minutes as in event/line_minutes.h, which
-- are kept for lines_keep_s, the source with its consumer; and judged, [minute, minute]: from the first one, before the
-- second one.
-- Result  the age at which rows were deleted, NULL if none were; a JSON array of the judged minutes' rows, as in
--         event/line_counts.h, NULL if there are none; the listener adds the hazards
WITH checkin AS MATERIALIZED (
	SELECT n, n->>'listener' AS name, (n->>'is_leaving')::boolean AS is_leaving,
		(n->>'late_weight')::numeric AS weight, pg_catalog.jsonb_array_length(n->'copies') AS places,
		pg_catalog.concat('consumer:' || nullif(n->>'consumer', '') || ':') AS scope
	FROM (SELECT $1::jsonb) AS given (n)
), gone AS (
	DELETE FROM :schema.wsonce_listeners AS l USING checkin
	WHERE (l.listener = name AND is_leaving) OR (l.listener <> name AND seen_at < pg_catalog.now() - CASE
		WHEN report ? 'version' THEN interval '7 days' ELSE interval '3 minutes' END) -- commands report no version
), here AS (
	INSERT INTO :schema.wsonce_listeners (listener, max_age_s, dedup_window_s, consumer, handler, targets,
		target_urls, report)
	SELECT name, (n->>'max_age_s')::bigint, (n->>'dedup_window_s')::bigint, n->>'consumer', n->>'handler',
		ARRAY(SELECT t FROM pg_catalog.jsonb_array_elements_text(n->'targets') AS t ORDER BY t),
		ARRAY(SELECT value FROM pg_catalog.jsonb_each_text(n->'target_urls') ORDER BY key), n->'report'
	FROM checkin WHERE NOT is_leaving
	ON CONFLICT (listener) DO UPDATE SET seen_at = pg_catalog.now(), targets = excluded.targets,
		target_urls = excluded.target_urls, report = excluded.report
), late AS MATERIALIZED (
	SELECT e.event_id, extract(epoch FROM pg_catalog.now() - e.processed_at) * 1000 - (l->>1)::bigint AS ms
	FROM (SELECT l FROM checkin, pg_catalog.jsonb_array_elements(n->'late') AS l) AS given
	JOIN :schema.events AS e ON e.event_id = l->>0
), late_copies AS MATERIALIZED (
	SELECT CASE WHEN ms < 1 THEN 1 ELSE least(pg_catalog.floor(pg_catalog.log(2, ms)) + 2, places) END::int AS place,
		pg_catalog.round(pg_catalog.count(*) * weight)::bigint AS copies
	FROM late, checkin GROUP BY 1, weight
), late_pairs AS (
	SELECT pg_catalog.jsonb_build_array(greatest(pg_catalog.round(ms), 0), event_id) AS pair FROM late
), fresh AS MATERIALIZED (
	SELECT (n->>'events')::bigint AS events, ARRAY(
		SELECT c::text::bigint + coalesce((SELECT copies FROM late_copies AS l WHERE l.place = u.place), 0)
		FROM pg_catalog.jsonb_array_elements(n->'copies') WITH ORDINALITY AS u (c, place) ORDER BY place
	) AS copies, coalesce(n->'keys', '{}') AS keys,
		least(n->'closest', (SELECT pair FROM late_pairs ORDER BY pair LIMIT 1)) AS closest,
		greatest(n->'farthest', (SELECT pair FROM late_pairs ORDER BY pair DESC LIMIT 1)) AS farthest
	FROM checkin
), counted AS (
	-- sketch is no longer used; listeners of older builds need its 1,024 bytes.
	INSERT INTO :schema.wsonce_duplicates AS d (day, events, copies, keys, closest, farthest, sketch)
	SELECT (pg_catalog.now() AT TIME ZONE 'UTC')::date, events, copies, keys, closest, farthest,
		pg_catalog.decode(pg_catalog.repeat('00', 1024), 'hex') FROM fresh WHERE events > 0 OR 0 < ANY (copies)
	ON CONFLICT (day) DO UPDATE SET
		events = d.events + excluded.events,
		copies = ARRAY(
			SELECT coalesce(a, 0) + coalesce(b, 0)
			FROM unnest(d.copies, excluded.copies) WITH ORDINALITY AS u (a, b, place) ORDER BY place
		),
		keys = coalesce((
			SELECT pg_catalog.jsonb_object_agg(key, copies) FROM (
				SELECT key, pg_catalog.sum(value::bigint) AS copies FROM (
					SELECT * FROM pg_catalog.jsonb_each_text(d.keys)
					UNION ALL SELECT * FROM pg_catalog.jsonb_each_text(excluded.keys)
				) AS each GROUP BY key ORDER BY key COLLATE "C" LIMIT 256
			) AS smallest
		), '{}'),
		closest = least(d.closest, excluded.closest), farthest = greatest(d.farthest, excluded.farthest)
), older AS MATERIALIZED (
	-- They take an `up` that is NULL for a minute without a connection.
	SELECT pg_catalog.bool_or(NOT coalesce(report ? 'whole_minutes_are_null', false)) AS is_there
	FROM :schema.wsonce_listeners AS l, checkin WHERE l.listener <> name AND seen_at > pg_catalog.now() - interval '1 hour'
), lines AS (
	INSERT INTO :schema.line_minutes AS m
	SELECT pg_catalog.to_timestamp((l->>0)::bigint * 60), pg_catalog.concat(scope, l->>1),
		pg_catalog.concat(pg_catalog.left(name, -17), l->>14, pg_catalog.right(name, 17)), (l->>2)::bigint,
		(l->>3)::bigint, nullif((l->>4)::bigint, 0), nullif((l->>5)::bigint, 0), nullif((l->>6)::bigint, 0),
		nullif((l->>7)::int, 0), CASE WHEN is_there OR l->8 <> '[0,60000]' OR l->15 <> '1' THEN ARRAY(
			SELECT ms::text::int FROM pg_catalog.jsonb_array_elements(l->8) WITH ORDINALITY AS u (ms, n) ORDER BY n
		) END, (l->>9)::bigint, nullif((l->>10)::int, 0), nullif((l->>11)::bigint, 0), (l->>12)::int, (l->>13)::int,
		nullif((l->>15)::smallint, 1),
		(l->>16)::bigint, nullif(l->17, 'null')
	FROM checkin, older, pg_catalog.jsonb_array_elements(n->'lines') AS l
	ORDER BY (l->>0)::bigint, l->>14, l->>1 -- as the key
	ON CONFLICT (minute, source, listener) DO UPDATE SET received = excluded.received,
		received_sum = excluded.received_sum, stored = excluded.stored, stored_sum = excluded.stored_sum,
		unknown = excluded.unknown, reconnects = excluded.reconnects, up = excluded.up, gap = excluded.gap,
		silent_ms = excluded.silent_ms, filled = excluded.filled,
		behind_p50 = excluded.behind_p50, behind_p99 = excluded.behind_p99, minutes = excluded.minutes,
		disagree = excluded.disagree, disagreements = excluded.disagreements
), oldest AS MATERIALIZED (
	SELECT pg_catalog.now() - pg_catalog.make_interval(secs => (n->>'lines_keep_s')::int) AS minute FROM checkin
), old_lines AS (
	-- Deletes twice as many rows as a listener writes, and the rest of the last minute: without one line's row, the other
	-- lines could seem to have everything. After weeks without listeners this must not delay the first batch.
	DELETE FROM :schema.line_minutes WHERE minute < (SELECT minute FROM oldest) AND ctid = ANY (ARRAY(
		SELECT ctid FROM :schema.line_minutes WHERE minute < (SELECT minute FROM oldest) AND minute <= coalesce((
			SELECT minute FROM :schema.line_minutes WHERE minute < (SELECT minute FROM oldest)
			ORDER BY minute OFFSET 1999 LIMIT 1
		), pg_catalog.now()) FOR UPDATE SKIP LOCKED
	))
), asked AS MATERIALIZED (
	SELECT scope, (n->'judged'->>0)::bigint AS first, (n->'judged'->>1)::bigint AS past FROM checkin
), told AS (
	SELECT l.*, at, pg_catalog.max(coalesce(minutes, 1)) OVER (PARTITION BY source, at / 5) AS length
	FROM asked, :schema.line_minutes AS l CROSS JOIN LATERAL (SELECT extract(epoch FROM minute)::bigint / 60 AS at) AS t
	WHERE minute >= pg_catalog.to_timestamp((first - 4) * 60) AND minute < pg_catalog.to_timestamp(past * 60)
		AND pg_catalog.starts_with(source, scope)
), judged AS MATERIALIZED (
	-- If a listener records five minutes together, they are judged with the last of them.
	SELECT told.*, at - at % length AS begin, pg_catalog.left(listener, -17) AS instance FROM told, asked
	WHERE at - at % length + length BETWEEN asked.first + 1 AND past
), odd AS (
	-- The others miss nothing, and were always connected.
	SELECT begin, source FROM judged GROUP BY begin, source
	HAVING NOT (pg_catalog.bool_and(coalesce(up, '{0,60000}') = ARRAY[0, length * 60000]) AND pg_catalog.min(received) = pg_catalog.max(received)
		AND coalesce(pg_catalog.sum(stored), 0) <= pg_catalog.max(received))
)
SELECT (SELECT rows_deleted_s FROM :schema.wsonce_retention), (
	SELECT pg_catalog.json_agg(pg_catalog.json_build_array(begin, pg_catalog.substr(source, pg_catalog.length(scope) + 1),
		received, received_sum, stored, stored_sum, unknown, reconnects, coalesce(up, '{0,60000}'), listener, at - begin,
		length) ORDER BY begin, source, instance, listener, at)
	FROM judged JOIN odd USING (begin, source), asked
)
