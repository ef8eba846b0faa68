-- $1 the last key, $2 the cutoff, $3 the batch, $4 rows to look at, $5 change them? Looks at the next rows for up to $3 that
-- are too old, and changes those that others have not locked. Returns the number of old rows, their size, the key of the
-- last row looked at (NULL at the end), and the number of changed rows; then a row for each event whose dead mark in
-- Redis must be deleted with its dead letter, with the event's id and the consumer in the last columns. A range of keys is
-- read in the order of their index, which for ids is that of the table, even in partitions; a join by the keys of a batch
-- would read a page for each.
WITH step AS MATERIALIZED (
	SELECT {key}, pg_catalog.pg_column_size({size}) AS size,
		({moment} < $2::timestamptz AND (({part}) OR (({other}) AND {if_other})){and}) IS TRUE AS is_old
	FROM :schema.{table} AS t WHERE {after} ORDER BY {key} LIMIT $4::bigint
), old AS MATERIALIZED (
	SELECT * FROM step WHERE is_old LIMIT $3::bigint
), looked AS MATERIALIZED (
	SELECT pg_catalog.count(*) AS found, pg_catalog.sum(size) AS size,
		CASE WHEN pg_catalog.count(*) = $3::bigint THEN (SELECT {last} FROM old) ELSE (SELECT {last} FROM step) END AS last
	FROM old
), free AS MATERIALIZED (
	SELECT {key} FROM :schema.{table} AS t
	WHERE $5::boolean AND (SELECT found FROM looked) > 0 AND {after} AND {up_to}
		AND ({moment} < $2::timestamptz AND (({part}) OR (({other}) AND {if_other})){and}) IS TRUE
	FOR UPDATE SKIP LOCKED
), done AS (
	{change} WHERE (SELECT pg_catalog.count(*) FROM free) > 0 AND {after} AND {up_to}
		AND (({key}) IN (SELECT {key} FROM free)) IS TRUE RETURNING {marked}
)
SELECT found, size, last, (SELECT pg_catalog.count(*) FROM done), NULL, NULL FROM looked
UNION ALL SELECT NULL, NULL, NULL, NULL, event_id, consumer FROM done WHERE event_id IS NOT NULL
