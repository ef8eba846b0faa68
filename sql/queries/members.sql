-- Finds the other listeners that store here for the same feeds. A listener without Redis asks every second or two. $1
-- is the name that its session takes, by which the others know it; $2 is the process id of its backend. Returns $1 and
-- the names of the other sessions of its role that begin in the same way. Any role may take any name, and whether
-- another role's session is active may be hidden, so those do not count. A session that was idle for 5 seconds is
-- frozen or cut off. Returns and changes nothing if $2 is not this backend's, as behind a pooler, or if the conninfo
-- has named the session.
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
