-- Finds open transactions that have written to the table $3 (events or dead_letters), except those known to have begun
-- after the time $2. $1 those that the first query has found, or NULL. Returns them for the next query, NULL if there are
-- none, and the oldest one as a text. The locks are visible to every role, and so are those of prepared transactions,
-- which have no process.
SELECT pg_catalog.array_agg(l.virtualtransaction)::text, pg_catalog.min(coalesce('process ' || l.pid,
	'a prepared transaction, see pg_prepared_xacts'))
FROM pg_catalog.pg_locks AS l LEFT JOIN pg_catalog.pg_stat_activity AS a USING (pid)
WHERE l.relation = CASE $3::text WHEN 'events' THEN $events$:schema.events$events$::pg_catalog.regclass
		ELSE $letters$:schema.dead_letters$letters$::pg_catalog.regclass END
	AND l.mode = 'RowExclusiveLock' AND l.granted
	AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
	AND ($1::text[] IS NULL OR l.virtualtransaction = ANY ($1::text[]))
	AND (a.xact_start >= $2::timestamptz) IS NOT TRUE
