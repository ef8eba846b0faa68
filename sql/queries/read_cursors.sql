-- Returns the epoch (see epoch.sql), and for each cursor of the sources $1: source, scope, value, variables, and when it
-- changed, in seconds since 1970.
:epoch, NULL, NULL, NULL, NULL UNION ALL
SELECT * FROM (
	SELECT source, scope, value, variables, pg_catalog.floor(extract(epoch FROM changed_at))::text
	FROM :schema.cursors WHERE source = ANY ($1::text[]) ORDER BY source, scope
) AS known
