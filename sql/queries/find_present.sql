-- Finds which events are stored. $1 ids; $2 the consumer that must have processed them, "" if the row is
-- enough. Looks up each id in the index: see postgres_find_by_key() in listener/postgres/connection.h. Returns the
-- epoch (see epoch.sql) and the ids found, as insert.sql does, in their order.
--
-- A row can be visible before a synchronous standby has it, if its transaction's wait was cancelled or ended with the
-- server. Before we report it as stored we must wait, too, and only transactions that write wait for the standby. So, if
-- there is a row to report, the statement writes a message that nobody reads.
--
-- The second comparison is for a table whose column has a collation in which different ids may be equal.
WITH wanted AS MATERIALIZED (
	SELECT id, place FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS w (id, place)
), present AS MATERIALIZED (
	SELECT place, wanted.id FROM wanted JOIN :schema.events AS e ON e.event_id = wanted.id WHERE $2::text = ''
		AND e.event_id COLLATE "C" = wanted.id COLLATE "C"
	UNION ALL
	SELECT place, wanted.id FROM wanted JOIN :schema.processed_events AS p ON p.event_id = wanted.id
	WHERE $2::text <> '' AND p.consumer = $2
	ORDER BY place
)
:epoch UNION ALL
SELECT pg_catalog.encode(pg_catalog.convert_to(id, 'UTF8'), 'escape') || (
		SELECT CASE WHEN pg_catalog.current_setting('synchronous_standby_names') = '' THEN ''
			ELSE pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'wsonce', ''::text)::text, 0) END
	)
FROM present
