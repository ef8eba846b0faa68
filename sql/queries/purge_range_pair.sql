-- The same as purge_range.sql for a table whose keys are not ids: if there are rows to purge, the range is from the first
-- key to the end.
SELECT CASE WHEN pg_catalog.min({moment}) < $1::timestamptz THEN $2::text END, NULL FROM :schema.{table}
