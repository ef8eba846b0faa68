-- The same as purge_range.sql.
SELECT min(id) - 1, max(id) FROM {table} WHERE {moment} < ?1 AND {file_part} AND ?2 <> ''
