-- Records that rows older than $1 seconds were deleted, unless younger rows were deleted earlier.
INSERT INTO :schema.wsonce_retention AS r (rows_deleted_s) VALUES ($1::bigint)
ON CONFLICT (is_only) DO UPDATE SET rows_deleted_s = excluded.rows_deleted_s, changed_at = pg_catalog.now()
WHERE excluded.rows_deleted_s < r.rows_deleted_s
