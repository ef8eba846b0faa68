-- How commits may be lost when the server crashes or fails over, '' if they cannot. One column, which
-- SCHEMA_WITH_HAZARDS adds to other statements. A WAL receiver without a logical slot is a standby or a backup: a role
-- without rights cannot tell which.
SELECT coalesce(pg_catalog.string_agg(hazard, ', ' ORDER BY hazard), '') FROM (
	SELECT name || ' = ' || setting FROM pg_settings
	WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
	UNION ALL
	SELECT 'standbys that commits do not wait for'
	WHERE (pg_catalog.current_setting('synchronous_standby_names') = ''
			OR pg_catalog.current_setting('synchronous_commit') IN ('off', 'local'))
		AND EXISTS (SELECT FROM pg_catalog.pg_stat_get_wal_senders() AS w WHERE NOT EXISTS (
			SELECT FROM pg_replication_slots WHERE active_pid = w.pid AND slot_type = 'logical'))
) AS h (hazard)
