-- The next open dead letters of consumer $1, with an id above $2 and at most $7, last seen at or after $3 and before $4, of source $5
-- and type $6, each NULL for any. Returns the id, and the line for wsonce export. If no profile has read a letter, maybe
-- only its head is kept: see dead_letters_show.sql.
SELECT id, pg_catalog.concat('{"wsonce_letter":', id, ',"first_seen":"',
	pg_catalog.to_char(first_seen AT TIME ZONE 'UTC', f), '","last_seen":"',
	pg_catalog.to_char(last_seen AT TIME ZONE 'UTC', f), '","seen":', seen,
	',"reason":', pg_catalog.to_json(reason), ',"source":', coalesce(pg_catalog.to_json(source)::text, 'null'),
	',"sender":', coalesce(pg_catalog.to_json(sender)::text, 'null'), ',"instance":', pg_catalog.to_json(instance_id),
	',"event_id":', coalesce(pg_catalog.to_json(event_id)::text, 'null'),
	',"event_type":', coalesce(pg_catalog.to_json(event_type)::text, 'null'),
	',"is_whole":', pg_catalog.to_json(event_type IS NOT NULL OR digest = CASE consumer
		WHEN '' THEN pg_catalog.sha256(raw) ELSE pg_catalog.sha256(pg_catalog.sha256(raw) || pg_catalog.convert_to(consumer, 'UTF8')) END),
	',"raw_base64":"', pg_catalog.translate(pg_catalog.encode(raw, 'base64'), pg_catalog.chr(10), ''), '"}')
FROM :schema.dead_letters CROSS JOIN (VALUES ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) AS form (f)
WHERE (resolved_at IS NULL OR last_seen > resolved_at) AND consumer = $1::text AND id > $2::bigint AND id <= $7::bigint
	AND last_seen >= $3::timestamptz AND last_seen < $4::timestamptz
	AND ($5::text IS NULL OR source = $5::text) AND ($6::text IS NULL OR event_type = $6::text)
ORDER BY consumer, id LIMIT 200
