-- Further copies of an event that listeners counted, for wsonce explain, like explain.sql.
-- $1  the hash of its id in wsonce_duplicates.keys, which has some ids of each day
-- Result  as of explain.sql, at the beginning of the day (UTC) on which they came
-- table wsonce_duplicates
SELECT (extract(epoch FROM day::timestamp AT TIME ZONE 'UTC') * 1000000)::bigint, 'copies of that day',
	pg_catalog.json_build_object('copies', (keys->>$1::text)::bigint)
FROM :schema.wsonce_duplicates WHERE keys ? $1::text
