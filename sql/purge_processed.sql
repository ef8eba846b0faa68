-- One step of wsonce purge: what was processed before $2 is no longer known as such. As purge_rows.sql, but
-- in the order of the primary key, whose last value, $1, is [consumer, event_id] in JSON.
WITH step AS MATERIALIZED (
	SELECT consumer, event_id, processed_at FROM processed_events
	WHERE (consumer, event_id) > ($1::json->>0, $1::json->>1) ORDER BY consumer, event_id LIMIT $4::bigint
), old AS MATERIALIZED (
	SELECT consumer, event_id FROM step WHERE processed_at < $2::timestamptz
	ORDER BY consumer, event_id LIMIT $3::bigint
), free AS MATERIALIZED (
	SELECT consumer, event_id FROM processed_events
	WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM old) FOR UPDATE SKIP LOCKED
), done AS (
	DELETE FROM processed_events WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM free) RETURNING 1
), looked_at AS (
	SELECT consumer, event_id FROM old WHERE (SELECT count(*) FROM old) = $3::bigint
	UNION ALL
	SELECT consumer, event_id FROM step WHERE (SELECT count(*) FROM old) < $3::bigint
)
SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), (
	SELECT json_build_array(consumer, event_id) FROM looked_at ORDER BY consumer DESC, event_id DESC LIMIT 1
)
