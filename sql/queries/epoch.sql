-- Returns the current epoch, NULL if there is none. It is the first row of every statement that stores, in a column of
-- this name.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home AND run = pg_catalog.pg_postmaster_start_time()) AS wsonce_epoch
