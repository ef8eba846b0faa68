-- Finds the session that holds up the statements that store. It has a lock that they conflict with on one of our
-- tables, or it holds up a session that asks for such a lock. Locks of rows and of a table's end do not count: sessions
-- that store have them, too. If there is none, commits may wait for a synchronous standby: none is connected, or one of
-- our sessions has waited for two seconds for one that hangs. sync_state and wait_event are NULL for a role without
-- rights. If not, it may be a session that has written rows for more than a second and has not committed them: only who
-- has just waited for a row may blame it. Says since when the session's transaction is open, if this role may see that.
-- Listeners and commands lock wsonce_epoch for a moment, under any name, which does not count: of the sessions that may,
-- it is one that holds others up and waits for nobody. On another table, as a handler's, it has a lock that a session
-- that has written rows waits for. Returns one row or none: the sentence, and whether it is about rows.
WITH ours AS MATERIALIZED (
	SELECT c.oid, c.relname FROM pg_catalog.pg_class AS o JOIN pg_catalog.pg_class AS c USING (relnamespace)
	WHERE o.oid = (SELECT tableoid FROM :schema.wsonce_schema LIMIT 1) AND c.relname IN ('events', 'dead_letters',
		'processed_events', 'outbox', 'cursors', 'wsonce_epoch', 'wsonce_listeners', 'wsonce_duplicates',
		'line_minutes')
), storing AS MATERIALIZED (
	SELECT pid FROM pg_catalog.pg_locks JOIN ours ON relation = oid WHERE granted AND mode = 'RowExclusiveLock'
		AND pid IS NOT NULL AND relname IN ('events', 'processed_events')
)
SELECT sentence, is_of_rows FROM (
	SELECT pg_catalog.concat('session ', a.pid, ' of role ', a.usename, ' (' || nullif(a.application_name, '') || ')',
		CASE WHEN is_of_rows THEN ' has written to ' ELSE ' locks ' END, relname,
		pg_catalog.to_char(a.xact_start AT TIME ZONE 'UTC', '" since "YYYY-MM-DD" "HH24:MI:SS"Z"'),
		': end its transaction') AS sentence, is_of_rows, false AS is_standby, a.xact_start
	FROM ours CROSS JOIN LATERAL (SELECT ours.oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(ours.oid)) AS p (relation)
	JOIN pg_catalog.pg_locks AS l ON l.relation = p.relation AND locktype = 'relation'
	CROSS JOIN LATERAL (SELECT CASE WHEN granted THEN l.pid ELSE (pg_catalog.pg_blocking_pids(l.pid))[1] END,
		mode = 'RowExclusiveLock') AS h (pid, is_of_rows)
	JOIN pg_catalog.pg_stat_activity AS a ON a.pid = h.pid AND a.datname = pg_catalog.current_database()
	WHERE (mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
			OR (mode = 'RowShareLock' AND relname = 'wsonce_epoch')
			OR (is_of_rows AND granted AND relname IN ('events', 'processed_events')
				AND a.wait_event_type IS DISTINCT FROM 'Lock'
				AND coalesce(a.xact_start < pg_catalog.statement_timestamp() - interval '1 second', true)
				AND EXISTS (SELECT FROM pg_catalog.pg_locks AS x WHERE x.pid = a.pid AND x.granted
					AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock')))
		AND NOT (relname = 'wsonce_epoch' AND pg_catalog.has_table_privilege(a.usesysid, ours.oid, 'UPDATE')
			AND ((granted AND mode = 'RowShareLock') OR a.application_name ~ '^wsonce'
				OR pg_catalog.pg_blocking_pids(a.pid) <> '{}'))
		AND a.pid <> pg_catalog.pg_backend_pid()
	UNION ALL
	SELECT pg_catalog.concat('session ', a.pid, ' of role ', a.usename, ' (' || nullif(a.application_name, '') || ')',
		' locks ', l.relation::regclass, pg_catalog.to_char(a.xact_start AT TIME ZONE 'UTC',
			'" since "YYYY-MM-DD" "HH24:MI:SS"Z"'), ': end its transaction'), false, false, a.xact_start
	FROM pg_catalog.pg_locks AS l
	JOIN pg_catalog.pg_stat_activity AS a ON a.pid = (pg_catalog.pg_blocking_pids(l.pid))[1]
		AND a.datname = pg_catalog.current_database()
	WHERE NOT l.granted AND l.locktype = 'relation' AND l.relation <> ALL (SELECT oid FROM ours)
		AND l.pid IN (SELECT pid FROM storing) AND a.pid NOT IN (SELECT pid FROM storing)
	UNION ALL
	SELECT pg_catalog.concat('commits wait for a standby, but ', CASE WHEN is_there THEN 'too few' ELSE 'none' END,
		' of synchronous_standby_names (', pg_catalog.current_setting('synchronous_standby_names'), ') ',
		CASE WHEN is_there THEN 'confirm them' ELSE 'is connected' END), false, true, NULL
	FROM (SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_get_wal_senders() WHERE sync_state IS NULL
		OR sync_state IN ('sync', 'quorum'))) AS s (is_there)
	WHERE pg_catalog.current_setting('synchronous_standby_names') <> ''
		AND pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local')
		AND NOT pg_catalog.pg_is_in_recovery()
		AND (NOT is_there OR EXISTS (SELECT FROM pg_catalog.pg_stat_activity
			WHERE datname = pg_catalog.current_database() AND application_name ~ '^wsonce'
				AND wait_event = 'SyncRep'
				AND query_start < pg_catalog.statement_timestamp() - interval '2 seconds'))
) AS found ORDER BY is_of_rows, is_standby, xact_start LIMIT 1
