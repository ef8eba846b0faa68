-- The same as purge_look.sql.
SELECT count(*), coalesce(sum(size), 0), iif(count(*) = CAST(?3 AS INTEGER), max(id), (SELECT max(id) FROM (
	SELECT id FROM {table} WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?4 AS INTEGER))))
FROM (SELECT * FROM (
	SELECT id, length(CAST({size} AS BLOB)) AS size, {moment} < ?2 AND {file_part} AS is_old
	FROM {table} WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?4 AS INTEGER)
) WHERE is_old LIMIT CAST(?3 AS INTEGER))
