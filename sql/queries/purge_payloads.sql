-- One step of wsonce purge: the payloads of up to $3 rows go that are older than $2 and still have theirs.
-- $1 is the last id that was looked at; at most $4 rows are. Rows that somebody else has locked are left
-- for the next run. Tells how many were done, how many there were, and the last id now: NULL at the end.
--
-- Rows are found again by event_id, which says in which partition each is.
WITH old AS MATERIALIZED (
	SELECT id, event_id FROM (
		SELECT id, event_id, processed_at, purged_at FROM :schema.events WHERE id > $1::bigint ORDER BY id LIMIT $4::bigint
	) AS step
	WHERE processed_at < $2::timestamptz AND purged_at IS NULL LIMIT $3::bigint
), free AS MATERIALIZED (
	SELECT event_id FROM :schema.events
	WHERE event_id IN (SELECT event_id FROM old) AND purged_at IS NULL FOR UPDATE SKIP LOCKED
), done AS (
	UPDATE :schema.events SET payload = 'null', purged_at = now()
	WHERE event_id IN (SELECT event_id FROM free) RETURNING 1
)
SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM old), CASE
	WHEN (SELECT count(*) FROM old) = $3::bigint THEN (SELECT pg_catalog.max(id) FROM old)
	ELSE (SELECT pg_catalog.max(id) FROM (SELECT id FROM :schema.events WHERE id > $1::bigint ORDER BY id LIMIT
		$4::bigint) AS step)
END
