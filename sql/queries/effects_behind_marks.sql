-- Ends effects_copied_end.sql for a consumer: the marks are inserted before the handler runs, so that it sees them. A
-- division by zero aborts the transaction if a trigger suppressed one.
WHERE (SELECT 1 / (pg_catalog.count(*) = pg_catalog.current_setting('wsonce.rows')::bigint)::int FROM marked) = 1
