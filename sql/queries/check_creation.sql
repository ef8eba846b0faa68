-- As check_server.sql, of a database without tables.
SELECT CASE WHEN may THEN 0 ELSE 2 END, 'tables', 'there are none yet' || CASE
	WHEN may THEN ': the first listener, or wsonce migrate, creates them in the schema ' || name
	ELSE pg_catalog.format(', and the role %s may not create them: GRANT CREATE ON SCHEMA %s TO %1$s, or run wsonce '
		'migrate as a role that may', pg_catalog.quote_ident(current_user), name) END
FROM (
	SELECT pg_catalog.quote_ident(n), pg_catalog.has_schema_privilege(n, 'CREATE') FROM pg_catalog.current_schema() AS n
) AS place (name, may)
