-- The same as export_rows.sql. ?1 ids. A payload is text as it came, with newlines only between its tokens.
SELECT e.id, '{"wsonce_row":' || e.id || ',"received_at":' || json_quote(received_at)
	|| ',"processed_at":' || json_quote(processed_at) || ',"event_time":' || json_quote(event_time)
	|| ',"source":' || json_quote(source) || ',"instance":' || json_quote(instance)
	|| ',"purged_at":' || json_quote(purged_at)
	|| ',"event_id":' || json_quote(event_id) || ',"event_type":' || json_quote(event_type)
	|| ',"payload":' || replace(replace(payload, char(10), ' '), char(13), ' ') || '}'
FROM json_each('[' || trim(?1, '{}') || ']') AS w JOIN events AS e ON e.id = w.value ORDER BY w.key
