-- One step of wsonce purge: deliveries that were settled before $2, as in purge_rows.sql. A pending one has
-- no such time, whatever its age. Dead ones only where the setting wsonce.open_too is on.
WITH old AS MATERIALIZED (
	SELECT id FROM (SELECT id, state, settled_at FROM :schema.outbox WHERE id > $1::bigint ORDER BY id LIMIT
		$4::bigint) AS step
	WHERE state <> 'pending' AND settled_at < $2::timestamptz AND (state <> 'dead' OR pg_catalog.current_setting('wsonce.open_too', true) = 'on')
	LIMIT $3::bigint
), free AS MATERIALIZED (
	SELECT id FROM :schema.outbox WHERE id IN (SELECT id FROM old)
		AND state <> 'pending' AND settled_at < $2::timestamptz
		AND (state <> 'dead' OR pg_catalog.current_setting('wsonce.open_too', true) = 'on') FOR UPDATE SKIP LOCKED
), done AS (
	DELETE FROM :schema.outbox WHERE id IN (SELECT id FROM free) RETURNING 1
)
SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), CASE
	WHEN (SELECT count(*) FROM old) = $3::bigint THEN (SELECT pg_catalog.max(id) FROM old)
	ELSE (SELECT pg_catalog.max(id) FROM (SELECT id FROM :schema.outbox WHERE id > $1::bigint ORDER BY id LIMIT
		$4::bigint) AS step)
END
