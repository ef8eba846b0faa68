-- The same as retention_keep.sql.
INSERT INTO wsonce_retention AS r (is_only, rows_deleted_s, changed_at)
VALUES (1, CAST(?1 AS INTEGER), strftime('%Y-%m-%dT%H:%M:%f000Z'))
ON CONFLICT (is_only) DO UPDATE SET rows_deleted_s = excluded.rows_deleted_s, changed_at = excluded.changed_at
WHERE excluded.rows_deleted_s < r.rows_deleted_s
