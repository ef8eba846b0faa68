-- $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at. Looks at the next rows for up to $3 that are too old.
-- Returns their number, their size, and the key of the last row looked at, NULL at the end. A range of keys is read in the
-- order of their index, which for ids is that of the table, in partitions too.
WITH step AS MATERIALIZED (
	SELECT {key}, pg_catalog.pg_column_size({size}) AS size,
		({moment} < $2::timestamptz AND (({part}) OR (({other}) AND {if_other})){and}) IS TRUE AS is_old
	FROM :schema.{table} AS t WHERE {after} ORDER BY {key} LIMIT $4::bigint
), old AS MATERIALIZED (
	SELECT * FROM step WHERE is_old LIMIT $3::bigint
)
SELECT count(*), pg_catalog.sum(size),
	CASE WHEN count(*) = $3::bigint THEN (SELECT {last} FROM old) ELSE (SELECT {last} FROM step) END
FROM old
