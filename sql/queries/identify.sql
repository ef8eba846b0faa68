-- Returns, with the hazards, the epoch (NULL if it must be made), the id of the database, and a time at which it had all
-- rows: its last check-in, or its last migration. Sent on each new connection.
--
-- An epoch does not count if it is from before a shutdown that was more than a minute before the start of the server. The
-- server may have the directory of a backup that was copied then, which Postgres cannot tell from its own.
SELECT (SELECT epoch FROM :schema.wsonce_epoch, pg_catalog.pg_control_checkpoint() WHERE xmin = home AND NOT (
		checkpoint_time < pg_catalog.pg_postmaster_start_time() - interval '1 minute'
		AND pg_catalog.age(home) > pg_catalog.age(pg_catalog.split_part(next_xid, ':', 2)::xid)
	)), (SELECT id FROM :schema.wsonce_database),
	(SELECT pg_catalog.to_char(greatest(applied_at, (SELECT pg_catalog.max(seen_at) FROM :schema.wsonce_listeners))
		AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM :schema.wsonce_schema ORDER BY 1 DESC LIMIT 1)
