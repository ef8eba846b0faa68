-- The same as export_order.sql, on disk.
PRAGMA temp_store = FILE;
CREATE TEMPORARY TABLE wsonce_order AS SELECT id, length(payload) AS size FROM events
WHERE coalesce(received_at, processed_at) >= ?1
	AND (coalesce(received_at, processed_at) > ?1 OR id > CAST(?2 AS INTEGER))
	AND coalesce(received_at, processed_at) < ?3 AND (?4 IS NULL OR source = ?4) AND (?5 IS NULL OR event_type = ?5)
ORDER BY coalesce(received_at, processed_at), id
