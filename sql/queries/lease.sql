-- Leases due rows and returns them. Arrays describe the lanes that want rows, the most important first: $1 names of
-- targets, $2 rows wanted, $3 lease in ms, $4 id of the only row wanted, or `newest` for the one that came due last, or
-- NULL, $5 due_at in us since 1970, or if negative, since now, below which nothing is due, $6 the lane: 1 for rows that
-- have failed, which have an answer, 0 for the others. $7 is the most bytes of bodies for one lane, $8 for all; but one row is returned in any case,
-- and one of each lane unless that exceeds $8.
-- $9 limits by how many characters the numbers of a payload may grow when written out: 1e131071 has 8 bytes in a message
-- and 131,072 in the text of a jsonb, so some thousands of them exceed the memory of Postgres or of a listener. Such a
-- row is returned without a body.
--
-- Rows are found in the order of outbox_lanes, or by id, whatever the statistics say about pending rows:
-- * The planner assumes a LIMIT of 1, the value of the setting before the statement begins, so it never sorts.
-- * For a row wanted by id, the conditions are written so that no partial index can serve them. Its due_at is returned
--   as NULL.
--
-- Nothing is leased for a webhook that is paused. A lease is named by its number and the time at which the row was made.
--
-- The last column is the age in ms for ttl_s. It is 0 for a row with an answer but no attempts before this one, which an
-- operator has retried: it is sent once, however old it is.
--
-- Because of $5, a round does not read the index entries of settled rows again, which remain while an open transaction may
-- see them.
--
-- The commit does not wait for the disk: if a crash of the server undoes it, rows are delivered again with the same key.
WITH targets AS MATERIALIZED (
	SELECT turn, target, wanted::bigint, lease::bigint * interval '1 millisecond' AS lease, lane::int,
		CASE WHEN wanted_id <> 'newest' THEN wanted_id::bigint ELSE (
			SELECT id FROM :schema.outbox AS o
			WHERE wanted_id = 'newest' AND o.target = t.target AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = lane::int
				AND state = 'pending' AND due_at <= pg_catalog.now()
			ORDER BY due_at DESC LIMIT 1 FOR UPDATE SKIP LOCKED
		) END AS wanted_id, wanted_id IS NOT NULL AS is_only,
		CASE WHEN since::bigint < 0 THEN pg_catalog.now() ELSE timestamptz 'epoch' END
			+ since::bigint * interval '1 microsecond' AS since
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
		WITH ORDINALITY AS t (target, wanted, lease, wanted_id, since, lane, turn)
	WHERE pg_catalog.set_config('synchronous_commit', 'off', true) = 'off' AND
		pg_catalog.set_config('wsonce.wanted', '10000', true) <> ''
		AND NOT EXISTS (SELECT FROM :schema.webhook_pauses AS p WHERE p.target = t.target)
), due AS MATERIALIZED (
	SELECT t.turn, t.target, t.lease, d.* FROM targets AS t, LATERAL (
		SELECT * FROM (
			SELECT id, due_at, payload FROM :schema.outbox AS o
			WHERE o.target = t.target AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = t.lane AND state = 'pending'
				AND due_at >= t.since AND due_at <= pg_catalog.now()
			ORDER BY due_at LIMIT coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''),
				'1')::bigint
			FOR UPDATE SKIP LOCKED
		) AS first LIMIT t.wanted
	) AS d WHERE NOT t.is_only
	UNION ALL
	SELECT t.turn, t.target, t.lease, d.* FROM targets AS t, LATERAL (
		SELECT id, NULL::timestamptz AS due_at, payload FROM :schema.outbox AS o
		WHERE o.id = t.wanted_id AND state || '' = 'pending' AND due_at <= pg_catalog.now() FOR UPDATE SKIP LOCKED
	) AS d
), stored AS (
	SELECT *, pg_catalog.sum(size) OVER (PARTITION BY turn ORDER BY due_at, id) AS sizes,
		pg_catalog.row_number() OVER (PARTITION BY turn ORDER BY due_at, id) AS place
	FROM due, LATERAL (SELECT coalesce(pg_catalog.pg_column_size(payload), 0) OFFSET 0) AS s (size)
), fitting AS MATERIALIZED (
	SELECT turn, target, lease, due_at, place, id,
		CASE WHEN growth <= $9::text::bigint THEN coalesce(payload, 'null')::text END AS data
	FROM stored, LATERAL (
		SELECT coalesce(pg_catalog.sum(greatest(pg_catalog.scale(n) - 20, 0) + CASE
			WHEN pg_catalog.abs(n) < 1e20 THEN 0 WHEN pg_catalog.abs(n) < 1e50 THEN 50 WHEN
				pg_catalog.abs(n) < 1e150 THEN 150
			WHEN pg_catalog.abs(n) < 1e500 THEN 500 WHEN pg_catalog.abs(n) < 1e1500 THEN 1500 WHEN
				pg_catalog.abs(n) < 1e5000 THEN 5000
			WHEN pg_catalog.abs(n) < 1e15000 THEN 15000 WHEN pg_catalog.abs(n) < 1e45000 THEN 45000 ELSE 131072
		END), 0)
		FROM pg_catalog.jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') AS j, LATERAL
			(SELECT j::numeric) AS c (n)
	) AS g (growth)
	WHERE place = 1 OR sizes <= $7::text::bigint
), sized AS (
	SELECT *, pg_catalog.sum(pg_catalog.octet_length(data)) OVER (PARTITION BY turn ORDER BY place) AS of_target,
		pg_catalog.sum(pg_catalog.octet_length(data)) OVER (ORDER BY place > 1, turn, place) AS of_all,
		pg_catalog.row_number() OVER (ORDER BY place > 1, turn, place) AS overall
	FROM fitting
), chosen AS MATERIALIZED (
	SELECT target, lease, due_at, id, data FROM sized
	WHERE overall = 1
		OR (coalesce(of_all, 0) <= $8::text::bigint AND (place = 1 OR coalesce(of_target, 0) <= $7::text::bigint))
)
UPDATE :schema.outbox AS o SET attempts = o.attempts + 1, leases = o.leases + 1, due_at = pg_catalog.now() + c.lease
FROM chosen AS c
WHERE o.id = c.id
RETURNING o.id, o.target, o.attempts, pg_catalog.floor(extract(epoch FROM pg_catalog.now())), o.event_id,
	pg_catalog.format('{"type":%s,"timestamp":"%s","id":%s,"data":%s}', pg_catalog.to_json(o.event_type),
		pg_catalog.to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
			pg_catalog.to_json(o.event_id), c.data),
	c.data IS NULL, pg_catalog.floor(extract(epoch FROM c.due_at) * 1000000),
	pg_catalog.concat(o.leases, '/', pg_catalog.floor(extract(epoch FROM o.created_at) * 1000000)),
	CASE WHEN o.answer IS NULL THEN 0 ELSE 1 END,
	CASE WHEN o.answer IS NULL OR o.attempts > 1 THEN pg_catalog.floor(extract(epoch FROM pg_catalog.now() - o.created_at) * 1000)
		ELSE 0 END
