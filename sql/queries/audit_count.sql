-- For Postgres and SQLite. Returns the numbers of expected, stored, dead-lettered, discarded, resolved, in-flight and
-- missing events, of open dead letters with an id, of those of lines that are not events, and the age in days from which
-- purge has deleted rows, or NULL.
WITH expected AS (
	SELECT count(DISTINCT id) + count(DISTINCT name) AS n FROM wsonce_expected
)
SELECT (SELECT n FROM expected), (SELECT n FROM expected) - count(*), count(*) FILTER (WHERE found IN ('open', 'no event')),
	count(*) FILTER (WHERE found = 'discarded'), count(*) FILTER (WHERE found = 'resolved'),
	count(*) FILTER (WHERE found = 'in flight'), count(*) FILTER (WHERE found = 'missing'),
	count(*) FILTER (WHERE found = 'open'), count(*) FILTER (WHERE found = 'no event'),
	(SELECT rows_deleted_s / 86400 FROM :schema.wsonce_retention)
FROM wsonce_suspects
