-- Like check_server.sql, for the tables; also returns whether they exist. $1: those that a listener writes. check.c puts
-- WITH seen AS (inspect.sql) before it.
SELECT kind, 'tables', text, is_ours
FROM seen CROSS JOIN LATERAL (
	SELECT pg_catalog.has_schema_privilege(pg_catalog.current_schema(), 'CREATE')
) AS rights (may_create) CROSS JOIN LATERAL (VALUES
	(CASE WHEN fault IS NULL AND NOT is_read_only AND (is_ours OR may_create) THEN 0 ELSE 2 END, CASE
		WHEN fault IS NOT NULL THEN fault
		WHEN is_read_only THEN 'the server is read-only, perhaps a standby: connect to the primary'
		WHEN is_ours THEN 'columns, unique key and rights'
		WHEN may_create
			THEN 'there are none yet: the first listener, or wsonce migrate, creates them in the schema ' || name
		ELSE pg_catalog.format('there are none yet, and the role %s may not create them: GRANT CREATE ON SCHEMA %s TO '
			'%1$s, or run wsonce migrate as a role that may', pg_catalog.quote_ident(current_user), name) END),
	(1, warning)
) AS finding (kind, text) WHERE text IS NOT NULL
