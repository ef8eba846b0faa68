-- Puts rows in the order of received_at (processed_at where an old version stored the row), for export_rows.sql. $1
-- and $2: after this time and id; $3: before this time; $4, $5: of this source and type, or NULL. The result has the
-- id, about how many bytes the payload has, and the number of rows. COMMIT makes the result, which is kept on the server's
-- disk without a snapshot, so vacuum need not wait for the export. A row is stored after it is received, but clocks
-- differ: hence the day. The condition on purged_at is always true, and lets the planner use two indexes.
SELECT id, pg_catalog.pg_column_size(payload), pg_catalog.count(*) OVER ()
FROM :schema.events, LATERAL (SELECT coalesce(received_at, processed_at)) AS t (at)
WHERE at >= $1::timestamptz AND (at > $1::timestamptz OR id > $2::bigint) AND at < $3::timestamptz
	AND ($4::text IS NULL OR source = $4::text) AND ($5::text IS NULL OR event_type = $5::text)
	AND processed_at >= $1::timestamptz - interval '1 day' AND (purged_at IS NULL OR purged_at IS NOT NULL)
ORDER BY at, id
