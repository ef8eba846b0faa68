-- Finds the expected events without a row, for Postgres and SQLite. Autovacuum does not analyze temporary tables, and
-- without statistics the joins are slow.
INSERT INTO wsonce_suspects (at, id, name, digest, found)
SELECT pg_catalog.min(x.at), x.id, pg_catalog.min(x.name), x.digest, 'missing'
FROM wsonce_lines AS x LEFT JOIN wsonce_stored AS e ON e.event_id = x.id
WHERE e.event_id IS NULL GROUP BY x.id, x.digest ORDER BY pg_catalog.min(x.at);
ANALYZE wsonce_suspects
