-- Returns, with the hazards, the epoch (NULL if it must be made), the id of the database, and a time at which it had all
-- rows: its last check-in, or its last migration. Sent on each new connection.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home AND run = pg_catalog.pg_postmaster_start_time() AND pg_catalog.starts_with(pg_catalog.pg_relation_filepath('pg_catalog.pg_class'), place)),
	(SELECT id FROM :schema.wsonce_database),
	(SELECT pg_catalog.to_char(greatest(applied_at, (SELECT pg_catalog.max(seen_at) FROM :schema.wsonce_listeners))
		AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM :schema.wsonce_schema ORDER BY 1 DESC LIMIT 1)
