-- One step of wsonce purge: what was processed before $2 is no longer known as such. As purge_rows.sql, but
-- in the order of the primary key, whose last value, $1, is [consumer, event_id] in JSON.
WITH old AS MATERIALIZED (
	SELECT consumer, event_id FROM (
		SELECT consumer, event_id, processed_at FROM :schema.processed_events
		WHERE (consumer, event_id) > ($1::json->>0, $1::json->>1) ORDER BY consumer, event_id LIMIT $4::bigint
	) AS step
	WHERE processed_at < $2::timestamptz LIMIT $3::bigint
), free AS MATERIALIZED (
	SELECT consumer, event_id FROM :schema.processed_events
	WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM old) FOR UPDATE SKIP LOCKED
), done AS (
	DELETE FROM :schema.processed_events WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM free)
		RETURNING 1
)
SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), CASE
	WHEN (SELECT count(*) FROM old) = $3::bigint THEN (
		SELECT pg_catalog.json_build_array(consumer, event_id) FROM old ORDER BY consumer DESC, event_id DESC
			LIMIT 1
	) ELSE (
		SELECT pg_catalog.json_build_array(consumer, event_id) FROM (
			SELECT consumer, event_id FROM :schema.processed_events
			WHERE (consumer, event_id) > ($1::json->>0, $1::json->>1) ORDER BY consumer, event_id LIMIT
				$4::bigint
		) AS step ORDER BY consumer DESC, event_id DESC LIMIT 1
	)
END
