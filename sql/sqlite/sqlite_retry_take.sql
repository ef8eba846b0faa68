-- The same as retry_take.sql.
UPDATE dead_letters SET retried_at = strftime('%Y-%m-%dT%H:%M:%f000Z')
WHERE id IN (SELECT value FROM json_each('[' || trim(?1, '{}') || ']'))
	AND (?2 = 't' OR resolved_at IS NULL OR last_seen > resolved_at) AND (event_type IS NOT NULL OR source IS NULL)
	AND (event_type IS NOT NULL OR digest = wsonce_sha256(raw));
SELECT value, raw, CASE WHEN d.id IS NULL THEN 1 WHEN event_type IS NULL AND source IS NOT NULL THEN 2
	WHEN event_type IS NULL AND digest <> wsonce_sha256(raw) THEN 3 ELSE 0 END, event_id, event_type, source
FROM json_each('[' || trim(?1, '{}') || ']') AS w LEFT JOIN dead_letters AS d
	ON d.id = w.value AND (?2 = 't' OR resolved_at IS NULL OR last_seen > resolved_at)
ORDER BY 1
