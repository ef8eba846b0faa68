-- Records that rows of $1 seconds of age were deleted, unless younger ones were before.
INSERT INTO :schema.wsonce_retention AS r (rows_deleted_s) VALUES ($1::bigint)
ON CONFLICT (is_only) DO UPDATE SET rows_deleted_s = excluded.rows_deleted_s, changed_at = now()
WHERE excluded.rows_deleted_s < r.rows_deleted_s
