-- The same as export_letters.sql.
SELECT id, '{"wsonce_letter":' || id || ',"first_seen":' || json_quote(first_seen) || ',"last_seen":'
	|| json_quote(last_seen) || ',"seen":' || seen || ',"reason":' || json_quote(reason) || ',"source":'
	|| json_quote(source) || ',"sender":' || json_quote(sender) || ',"instance":' || json_quote(instance_id)
	|| ',"event_id":' || json_quote(event_id) || ',"event_type":' || json_quote(event_type) || ',"is_whole":'
	|| iif(event_type IS NOT NULL OR digest = wsonce_sha256(raw), 'true', 'false')
	|| ',"raw_base64":"' || wsonce_base64(raw) || '"}'
FROM dead_letters
WHERE (resolved_at IS NULL OR last_seen > resolved_at) AND consumer = ?1 AND id > CAST(?2 AS INTEGER)
	AND last_seen >= ?3 AND last_seen < ?4 AND (?5 IS NULL OR source = ?5) AND (?6 IS NULL OR event_type = ?6)
ORDER BY id LIMIT 200
