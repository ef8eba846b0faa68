-- Queues deliveries of the next page of stored events for the webhook $1. $2: until this time in us since 1970; $3: only
-- this type, or NULL; $4 and $5: after this time and id; $6: events in a page, which ends with $9 that are chosen; $7: only
-- this event, or NULL; $8: queue them? An event that has a pending or dead delivery to the webhook gets no other. Events
-- whose payloads were purged are skipped. Returns how many events were read, the time and id of the last one, how many were
-- chosen, and how many of them had a delivery.
--
-- The ids of events have the collation "C", those of the outbox that of the database: the index outbox_event is used only
-- with the latter.
WITH page AS MATERIALIZED (
	(SELECT id, event_id, event_type, payload, processed_at FROM :schema.events
	WHERE $7::text IS NULL AND purged_at IS NULL
		AND processed_at >= timestamptz 'epoch' + $4::bigint * interval '1 microsecond'
		AND processed_at < timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
		AND (processed_at > timestamptz 'epoch' + $4::bigint * interval '1 microsecond' OR id > $5::bigint)
	ORDER BY processed_at, id LIMIT $6::bigint)
	UNION ALL
	SELECT id, event_id, event_type, payload, processed_at FROM :schema.events
	WHERE event_id = $7::text AND purged_at IS NULL AND id > $5::bigint
		AND processed_at >= timestamptz 'epoch' + $4::bigint * interval '1 microsecond'
		AND processed_at < timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
), chosen AS MATERIALIZED (
	SELECT p.*, EXISTS (
		SELECT FROM :schema.outbox AS o
		WHERE o.event_id = p.event_id COLLATE "default" AND o.target = $1::text AND o.state IN ('pending', 'dead')
	) AS has_one
	FROM page AS p WHERE $3::text IS NULL OR event_type = $3::text ORDER BY processed_at, id LIMIT $9::bigint
), looked AS MATERIALIZED (
	SELECT processed_at, id FROM page WHERE (SELECT pg_catalog.count(*) FROM chosen) < $9::bigint
		OR (processed_at, id) <= (SELECT processed_at, id FROM chosen ORDER BY processed_at DESC, id DESC LIMIT 1)
), queued AS (
	INSERT INTO :schema.outbox (target, event_id, event_type, payload)
	SELECT $1::text, event_id, event_type, payload FROM chosen WHERE $8::bigint <> 0 AND NOT has_one
	ORDER BY processed_at, id
)
SELECT pg_catalog.count(*), coalesce((extract(epoch FROM pg_catalog.max(processed_at)) * 1000000)::bigint, 0),
	(SELECT id FROM looked ORDER BY processed_at DESC, id DESC LIMIT 1),
	(SELECT pg_catalog.count(*) FROM chosen), (SELECT pg_catalog.count(*) FROM chosen WHERE has_one)
FROM looked
