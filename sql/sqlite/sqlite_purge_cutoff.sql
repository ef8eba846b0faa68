-- The same as purge_cutoff.sql.
SELECT cutoff, CASE WHEN cutoff LIKE '2%' THEN unixepoch('now') - unixepoch(cutoff) ELSE 0 END
FROM (SELECT coalesce(max(c), '-infinity') AS cutoff FROM (
	SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-' || ?1 || ' seconds') AS c WHERE ?1 IS NOT NULL
	UNION ALL SELECT 'infinity' WHERE ?2 = '0'
	UNION ALL SELECT (SELECT {moment} FROM {table} WHERE {moment} IS NOT NULL AND {file_part}
		ORDER BY {moment} DESC LIMIT 1 OFFSET CAST(?2 AS INTEGER) - 1) WHERE CAST(?2 AS INTEGER) > 0))
