-- Who else stores here for the same feeds: asked every second or two by a listener that has no Redis. $1 is the name of
-- its session from now on, by which the others know it; $2 the number of its backend. Behind a pooler that is not the
-- server's, and a session may have been named by the conninfo: then nothing is told, and nothing changed. Else tells
-- $1, and the names of other sessions of its role that begin as it does: any role may take any name, and of another
-- role's session it may not be told whether it does anything. One that has done nothing for a while is frozen or cut
-- off.
WITH own AS MATERIALIZED (
	SELECT pg_catalog.set_config('application_name', $1::text, false) AS name
	WHERE pg_catalog.pg_backend_pid()::text = $2::text
		AND pg_catalog.current_setting('application_name') ~ '^(wsonce( [0-9a-f]{16} [0-9a-f]{16})?)?$'
)
SELECT name FROM own
UNION ALL SELECT a.application_name
FROM own CROSS JOIN pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.pid::text <> $2::text
	AND pg_catalog.left(a.application_name, 24) = pg_catalog.left($1::text, 24)
	AND a.usename = session_user
	AND a.state_change > pg_catalog.clock_timestamp() - interval '5 seconds'
