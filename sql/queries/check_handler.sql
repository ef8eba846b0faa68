-- Like check_server.sql, for the handler $1. check.c puts WITH seen (said) AS (check_effects.sql) before it.
SELECT CASE WHEN said LIKE '=%' THEN 0 ELSE 2 END, 'handler', CASE WHEN said LIKE '=%' THEN substring(said FROM 2)
	ELSE $1::text || ': ' || said || '; a handler is a function (event_id text, event_type text, payload jsonb) RETURNS void'
	END
FROM seen
