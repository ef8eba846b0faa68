-- Compares the table with the ids on standard input, one per line. README.md runs it in the container of Postgres.
-- Prints how many were sent, how many have a row, how many have none, and how many rows are beyond the first of an id.
-- Waits up to 30 s for the last events.
\set QUIET on
CREATE TEMP TABLE sent (event_id text PRIMARY KEY);
\copy sent FROM pstdin
DO $do$
BEGIN
	FOR tries IN 1..60 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM sent WHERE NOT EXISTS (SELECT FROM events WHERE events.event_id = sent.event_id));
		PERFORM pg_sleep(0.5);
	END LOOP;
END
$do$;
SELECT count(*) AS sent, count(stored) AS stored, count(*) - count(stored) AS missing,
	coalesce(sum(stored) - count(stored), 0) AS doubled
FROM sent LEFT JOIN (SELECT event_id, count(*) AS stored FROM events GROUP BY event_id) AS rows USING (event_id);
