-- The same as retry_take.sql.
UPDATE dead_letters SET retried_at = strftime('%Y-%m-%dT%H:%M:%f000Z')
WHERE id IN (SELECT value FROM json_each('[' || trim(?1, '{}') || ']'))
	AND (?2 = 't' OR resolved_at IS NULL OR last_seen > resolved_at) AND (event_type IS NOT NULL OR source IS NULL)
	AND (event_type IS NOT NULL OR digest = wsonce_sha256(raw));
SELECT value, raw, iif(event_type IS NOT NULL OR digest = wsonce_sha256(raw), 't', 'f'), iif(d.id IS NULL, 'f', 't'),
	event_id, event_type, source
FROM json_each('[' || trim(?1, '{}') || ']') AS w LEFT JOIN dead_letters AS d
	ON d.id = w.value AND (?2 = 't' OR resolved_at IS NULL OR last_seen > resolved_at)
ORDER BY 1
