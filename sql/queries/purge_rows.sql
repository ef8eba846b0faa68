-- One step of wsonce purge --delete-rows: as purge_payloads.sql, but the rows go.
WITH old AS MATERIALIZED (
	SELECT id, event_id FROM (SELECT id, event_id, processed_at FROM :schema.events WHERE id > $1::bigint ORDER BY id LIMIT
		$4::bigint) AS step
	WHERE processed_at < $2::timestamptz LIMIT $3::bigint
), free AS MATERIALIZED (
	SELECT event_id FROM :schema.events WHERE event_id IN (SELECT event_id FROM old) FOR UPDATE SKIP LOCKED
), done AS (
	DELETE FROM :schema.events WHERE event_id IN (SELECT event_id FROM free) RETURNING 1
)
SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), CASE
	WHEN (SELECT count(*) FROM old) = $3::bigint THEN (SELECT pg_catalog.max(id) FROM old)
	ELSE (SELECT pg_catalog.max(id) FROM (SELECT id FROM :schema.events WHERE id > $1::bigint ORDER BY id LIMIT
		$4::bigint) AS step)
END
