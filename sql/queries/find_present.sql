-- Which of these events are stored already. $1 ids, sorted; $2 the consumer for whom they are to be processed, ""
-- if the row is enough. Each id is looked up in the index: see postgres_find_by_key() in listener/postgres/connection.h.
-- Tells the epoch (see epoch.sql) and their ids, as insert.sql does, in that order.
--
-- A row can be seen before a synchronous standby has it: its transaction's wait was cancelled, or ended with the server.
-- Whoever tells that it is stored must wait, too, and the server lets only transactions wait that write. The message, of
-- which nothing is told, is written once, and only if there is a row to be told.
WITH wanted AS MATERIALIZED (
	SELECT id, place FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS w (id, place)
), present AS MATERIALIZED (
	SELECT place, wanted.id FROM wanted JOIN :schema.events AS e ON e.event_id = wanted.id WHERE $2::text = ''
	UNION ALL
	SELECT place, wanted.id FROM wanted JOIN :schema.processed_events AS p ON p.event_id = wanted.id
	WHERE $2::text <> '' AND p.consumer = $2
	ORDER BY place
)
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch UNION ALL
SELECT pg_catalog.encode(pg_catalog.convert_to(id, 'UTF8'), 'escape') || (
		SELECT CASE WHEN pg_catalog.current_setting('synchronous_standby_names') = '' THEN ''
			ELSE pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'wsonce', ''::text)::text, 0) END
	)
FROM present
