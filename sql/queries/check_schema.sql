-- Like check_server.sql, for the version of the schema. $1: the version that this program knows.
SELECT CASE WHEN version = known THEN 0 WHEN version < known AND may_upgrade THEN 1 ELSE 2 END, 'schema',
	'version ' || version || CASE
		WHEN version > known THEN ' is newer than this program, which knows ' || known || ': use a newer wsonce'
		WHEN version = known THEN ''
		WHEN may_upgrade THEN '; the next listener, or wsonce migrate, upgrades it to ' || known
		ELSE pg_catalog.format(', and the role %I may not upgrade it to %s: run wsonce migrate as the role that owns the '
			'tables', current_user, known) END
FROM (SELECT coalesce(pg_catalog.max(version), 0), $1::int FROM :schema.wsonce_schema) AS s (version, known),
	LATERAL (
		SELECT pg_catalog.has_schema_privilege(relnamespace, 'CREATE') AND pg_catalog.pg_has_role(relowner, 'USAGE')
		FROM pg_catalog.pg_class WHERE oid = $schema$:schema.wsonce_schema$schema$::pg_catalog.regclass
	) AS rights (may_upgrade)
