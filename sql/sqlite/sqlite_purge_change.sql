-- The same as purge_change.sql. Nobody else has rows locked.
{file_change} WHERE id > CAST(?1 AS INTEGER) AND id <= CAST(?3 AS INTEGER) AND {moment} < ?2 AND {file_part};
SELECT changes()
