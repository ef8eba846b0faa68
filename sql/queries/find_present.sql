-- Which of these events are stored already. $1 ids, sorted; $2 the consumer for whom they are to be processed, ""
-- if the row is enough. OFFSET 0 keeps the planner from reading the whole table: each id is looked up in the index.
-- Tells the epoch (see epoch.sql) and their ids.
--
-- A row can be seen before a synchronous standby has it: its transaction's wait was cancelled, or ended with the server.
-- Whoever tells that it is stored must wait, too, and the server lets only transactions wait that write. The message, of
-- which nothing is told, is written once, and only if there is a row to be told.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch UNION ALL SELECT id || (
		SELECT CASE WHEN pg_catalog.current_setting('synchronous_standby_names') = '' THEN ''
			ELSE pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'wsonce', ''::text)::text, 0) END
	)
FROM pg_catalog.unnest($1::text[]) AS wanted(id)
WHERE CASE WHEN $2::text = ''
	THEN EXISTS (SELECT FROM :schema.events WHERE event_id = wanted.id OFFSET 0)
	ELSE EXISTS (SELECT FROM :schema.processed_events WHERE consumer = $2 AND event_id = wanted.id OFFSET 0)
END
