-- Returns the current epoch, NULL if there is none. It is the first row of every statement that stores, in a column of
-- this name. The Makefile puts it into the queries that name it.
SELECT (
	SELECT epoch FROM :schema.wsonce_epoch
	WHERE xmin = home AND run = pg_catalog.pg_postmaster_start_time()
		AND pg_catalog.starts_with(pg_catalog.pg_relation_filepath('pg_catalog.pg_class'), place)
) AS wsonce_epoch
