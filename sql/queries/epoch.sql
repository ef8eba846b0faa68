-- Is the database still in the same epoch? As the first row of every statement that stores, in a column of this
-- name: NULL if there is none.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch
