-- The second row of the statement after a COPY: the number of deliveries, and what the handler returned. A division by
-- zero aborts the transaction if rows are missing: a trigger suppressed them, a policy hides them, or ids do not
-- increase.
UNION ALL
SELECT (1 / (pg_catalog.count(*) = pg_catalog.current_setting('wsonce.rows')::bigint)::int)::text, %s%s%s%s FROM fresh
