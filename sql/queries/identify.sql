-- Returns, with the hazards, the epoch (NULL if it must be made), the id of the database, a time at which it had all
-- rows: its last check-in, or its last migration, and the run of the server that the epoch's row names. Sent on each new
-- connection.
SELECT (:epoch) AS epoch,
	(SELECT id FROM :schema.wsonce_database),
	(SELECT pg_catalog.to_char(greatest(applied_at, (SELECT pg_catalog.max(seen_at) FROM :schema.wsonce_listeners))
		AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM :schema.wsonce_schema ORDER BY 1 DESC LIMIT 1),
	(SELECT pg_catalog.to_char(run AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM :schema.wsonce_epoch)
