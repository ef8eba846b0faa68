-- Asked on each new connection: the epoch, NULL if it is to be made; the id of the database; and that by which commits may
-- vanish when the server crashes, '' if there is nothing. Who receives the log and not by a logical slot is a standby,
-- or a backup: all that a role without rights may know of them.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home), (SELECT id FROM :schema.wsonce_database), (
	SELECT coalesce(pg_catalog.string_agg(hazard, ', ' ORDER BY hazard), '') FROM (
		SELECT name || ' = ' || setting FROM pg_settings
		WHERE name IN ('fsync', 'synchronous_commit') AND setting = 'off'
		UNION ALL
		SELECT 'standbys that commits do not wait for'
		WHERE (pg_catalog.current_setting('synchronous_standby_names') = ''
				OR pg_catalog.current_setting('synchronous_commit') IN ('off', 'local'))
			AND EXISTS (SELECT FROM pg_catalog.pg_stat_get_wal_senders() AS w WHERE NOT EXISTS (
				SELECT FROM pg_replication_slots WHERE active_pid = w.pid AND slot_type = 'logical'))
	) AS h (hazard)
)
