-- Like check_server.sql, for the version of the schema. $1: the version that this program knows.
SELECT CASE WHEN version > known THEN 2 WHEN version < known THEN 1 ELSE 0 END, 'schema', 'version ' || version || CASE
	WHEN version > known THEN ' is newer than this program, which knows ' || known || ': use a newer wsonce'
	WHEN version < known THEN '; the next listener, or wsonce migrate, upgrades it to ' || known
	ELSE '' END
FROM (SELECT coalesce(pg_catalog.max(version), 0), $1::int FROM :schema.wsonce_schema) AS s (version, known)
