-- The same as purge_step.sql, but no rows can be locked by others.
CREATE TEMPORARY TABLE IF NOT EXISTS wsonce_looked (found INTEGER, size INTEGER, last INTEGER);
DELETE FROM wsonce_looked;
INSERT INTO wsonce_looked
SELECT count(*), coalesce(sum(size), 0), iif(count(*) = CAST(?3 AS INTEGER), max(id), (SELECT max(id) FROM (
	SELECT id FROM {table} WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?4 AS INTEGER))))
FROM (SELECT * FROM (
	SELECT id, length(CAST({size} AS BLOB)) AS size, {moment} < ?2 AND {file_part} AS is_old
	FROM {table} WHERE id > CAST(?1 AS INTEGER) ORDER BY id LIMIT CAST(?4 AS INTEGER)
) WHERE is_old LIMIT CAST(?3 AS INTEGER));
{file_change} WHERE ?5 = 't' AND id > CAST(?1 AS INTEGER) AND id <= (SELECT last FROM wsonce_looked)
	AND {moment} < ?2 AND {file_part};
SELECT found, size, last, changes(), NULL FROM wsonce_looked
