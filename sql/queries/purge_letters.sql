-- One step of wsonce purge: dead letters that were last seen before $2, as in purge_rows.sql; open ones only where the
-- setting wsonce.open_too is on.
WITH old AS MATERIALIZED (
	SELECT id FROM (
		SELECT id, last_seen, resolved_at FROM :schema.dead_letters WHERE id > $1::bigint ORDER BY id LIMIT $4::bigint
	) AS step
	WHERE last_seen < $2::timestamptz AND (last_seen <= resolved_at OR pg_catalog.current_setting('wsonce.open_too', true) = 'on')
	LIMIT $3::bigint
), free AS MATERIALIZED (
	SELECT id FROM :schema.dead_letters
	WHERE id IN (SELECT id FROM old) AND last_seen < $2::timestamptz
		AND (last_seen <= resolved_at OR pg_catalog.current_setting('wsonce.open_too', true) = 'on') FOR UPDATE SKIP LOCKED
), done AS (
	DELETE FROM :schema.dead_letters WHERE id IN (SELECT id FROM free) RETURNING 1
)
SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), CASE
	WHEN (SELECT count(*) FROM old) = $3::bigint THEN (SELECT pg_catalog.max(id) FROM old)
	ELSE (SELECT pg_catalog.max(id) FROM (SELECT id FROM :schema.dead_letters WHERE id > $1::bigint ORDER BY id
		LIMIT $4::bigint) AS step)
END
