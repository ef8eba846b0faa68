-- Returns the ids of deliveries to target $6 (NULL: any) of type $7 (NULL: any); the other parameters are those of
-- dead_letters_find.sql. Open means dead, resolved means dead until somebody acted on it; state pending is used only with
-- a target. Each is found by an index: of dead rows, of pending rows, of actions (`acted`, which is deliveries_acted.sql),
-- and with a bound of time, of settled rows. The time of a delivery that has not settled is that of its creation.
SELECT id FROM (
	SELECT id, target, event_type, status, answer, coalesce(settled_at, created_at) AS at
	FROM :schema.outbox WHERE state = 'dead' AND $4::text IN ('open', 'all')
	UNION ALL
	SELECT id, target, event_type, status, answer, created_at
	FROM :schema.outbox WHERE state = 'pending' AND ($4::text = 'pending' OR ($4::text IN ('resolved', 'all')
		AND ($1::bigint <> 0 OR $2::bigint <> 0)
		AND EXISTS (SELECT FROM :schema.delivery_actions AS a WHERE delivery_id = outbox.id OFFSET 0)))
	UNION ALL
	SELECT id, target, event_type, status, answer, settled_at
	FROM :schema.outbox WHERE state <> 'pending' AND state <> 'dead' AND $4::text IN ('resolved', 'all')
		AND ($1::bigint <> 0 OR $2::bigint <> 0)
		AND EXISTS (SELECT FROM :schema.delivery_actions AS a WHERE delivery_id = outbox.id OFFSET 0)
	UNION ALL
	SELECT * FROM acted
) AS o
WHERE ($1::bigint = 0 OR at >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond')
	AND ($2::bigint = 0 OR at < timestamptz 'epoch' + $2::bigint * interval '1 microsecond')
	AND ($3::text = ''
		OR pg_catalog.strpos(pg_catalog.lower(pg_catalog.concat_ws(' ', status, answer)), pg_catalog.lower($3::text)) > 0)
	AND ($5::bigint[] IS NULL OR id = ANY($5::bigint[]))
	AND ($6::text IS NULL OR target = $6::text) AND ($7::text IS NULL OR event_type = $7::text)
	AND id > $9::bigint AND id <= $10::bigint
