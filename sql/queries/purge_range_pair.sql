-- The same as purge_range.sql for a table whose keys are no ids: if a row goes, it is looked for from the first key to the
-- end.
SELECT CASE WHEN pg_catalog.min({moment}) < $1::timestamptz THEN $2::text END, NULL FROM :schema.{table}
