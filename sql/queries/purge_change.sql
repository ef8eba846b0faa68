-- $1 the last key, $2 the cutoff, $3 the key that purge_look.sql returned. Changes the rows in between that are too old,
-- except those that others have locked. Returns their number, and then a row for each event whose dead mark in Redis goes
-- with its dead letter, with the event's id in the second column. Rows are read by the range of keys: a join by the keys
-- of a batch would read a page for each.
WITH free AS MATERIALIZED (
	SELECT {key} FROM :schema.{table} AS t WHERE {after} AND {up_to}
		AND ({moment} < $2::timestamptz AND (({part}) OR (({other}) AND {if_other})){and}) IS TRUE
	FOR UPDATE SKIP LOCKED
), done AS (
	{change} WHERE {after} AND {up_to} AND (({key}) IN (SELECT {key} FROM free)) IS TRUE RETURNING {marked}
)
SELECT count(*), NULL FROM done UNION ALL SELECT NULL, event_id FROM done WHERE event_id IS NOT NULL
