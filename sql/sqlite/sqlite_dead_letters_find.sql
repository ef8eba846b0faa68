-- The same as dead_letters_find.sql. Arrays are texts in the form of Postgres: {1,2}.
SELECT id, event_type, raw FROM dead_letters
WHERE (?1 = '0' OR last_seen >= strftime('%Y-%m-%dT%H:%M:%S', CAST(?1 AS INTEGER) / 1000000, 'unixepoch')
		|| printf('.%06dZ', CAST(?1 AS INTEGER) % 1000000))
	AND (?2 = '0' OR last_seen < strftime('%Y-%m-%dT%H:%M:%S', CAST(?2 AS INTEGER) / 1000000, 'unixepoch')
		|| printf('.%06dZ', CAST(?2 AS INTEGER) % 1000000))
	AND (?3 = '' OR instr(lower(reason), lower(?3)) > 0)
	AND CASE ?4 WHEN 'all' THEN true WHEN 'open' THEN (resolved_at IS NULL OR last_seen > resolved_at)
		ELSE NOT (resolved_at IS NULL OR last_seen > resolved_at) END
	AND (?5 IS NULL OR id IN (SELECT value FROM json_each('[' || trim(?5, '{}') || ']')))
	AND consumer = ?6
	AND (?7 IS NULL OR iif(event_type IS NULL, instr(raw, CAST(?7 AS BLOB)) > 0 OR instr(raw, x'5c') > 0, event_type = ?7))
	AND id > CAST(?9 AS INTEGER) AND id <= CAST(?10 AS INTEGER)
