-- For Postgres and SQLite. Returns the numbers of expected, stored, dead-lettered, discarded, resolved, in-flight and
-- missing events, of open dead letters with an id, of those of lines that are not events, and the age in days from which
-- purge has deleted rows, or NULL.
WITH expected AS (
	SELECT pg_catalog.count(DISTINCT id) + pg_catalog.count(DISTINCT name) AS n FROM wsonce_expected
)
SELECT (SELECT n FROM expected), (SELECT n FROM expected) - pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE found IN ('open', 'no event')),
	pg_catalog.count(*) FILTER (WHERE found = 'discarded'), pg_catalog.count(*) FILTER (WHERE found = 'resolved'),
	pg_catalog.count(*) FILTER (WHERE found = 'in flight'), pg_catalog.count(*) FILTER (WHERE found = 'missing'),
	pg_catalog.count(*) FILTER (WHERE found = 'open'), pg_catalog.count(*) FILTER (WHERE found = 'no event'),
	(SELECT rows_deleted_s / 86400 FROM :schema.wsonce_retention)
FROM wsonce_suspects
