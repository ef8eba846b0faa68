-- The beginning of the statement that stores a batch with its effects (listener/store/effects.c). It has the parameters
-- of insert.sql.
--
-- Handlers of two batches may lock the same rows in a different order; Postgres then cancels one of the batches
-- (40P01). Every statement takes this shared lock, and a cancelled batch is sent again with an exclusive one, so it
-- cannot deadlock twice. It is a table lock because another program may use the number of an advisory lock. The statement
-- acquires it before its snapshot.
WITH held AS (SELECT FROM :schema.wsonce_epoch WHERE false FOR KEY SHARE)
, given AS MATERIALIZED (
	SELECT event_id, event_type, payload, source, received_at, event_time, $7::text AS instance
	FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::text[], $5::timestamptz[], $6::timestamptz[])
		AS g (event_id, event_type, payload, source, received_at, event_time)
)
