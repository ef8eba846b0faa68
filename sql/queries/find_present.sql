-- Which of these events are stored already. $1 ids, sorted; $2 the consumer for whom they are to be processed, ""
-- if the row is enough. OFFSET 0 keeps the planner from reading the whole table: each id is looked up in the index.
-- Tells the epoch (see epoch.sql) and their ids.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch UNION ALL SELECT id FROM
	pg_catalog.unnest($1::text[]) AS wanted(id)
WHERE CASE WHEN $2::text = ''
	THEN EXISTS (SELECT FROM :schema.events WHERE event_id = wanted.id OFFSET 0)
	ELSE EXISTS (SELECT FROM :schema.processed_events WHERE consumer = $2 AND event_id = wanted.id OFFSET 0)
END
