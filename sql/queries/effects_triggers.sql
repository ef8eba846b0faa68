-- The triggers of the table events and its partitions, in a subquery. A condition on t follows.
SELECT FROM pg_catalog.pg_class AS o
JOIN pg_catalog.pg_class AS e ON e.relnamespace = o.relnamespace AND e.relname = 'events'
CROSS JOIN LATERAL (SELECT e.oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(e.oid)) AS p (relid)
JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = p.relid
WHERE o.oid = (SELECT tableoid FROM :schema.wsonce_schema LIMIT 1)
