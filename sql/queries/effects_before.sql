-- Runs before a COPY of events with effects; effects_copied.sql runs after it. COPY stores all of its rows or none, so all
-- of them are new. They are found again by id, which is greater than the largest before, and by xmin. An INSERT trigger
-- may write rows of its own, and would run before the handler instead of after it: if there is one, a division by zero
-- aborts the transaction. The lock is that of effects_given.sql. The last setting is the text for effects_chosen.sql.
WITH held AS (SELECT FROM :schema.wsonce_epoch WHERE false FOR KEY SHARE)
SELECT pg_catalog.set_config('wsonce.before', coalesce(pg_catalog.max(id), 0)::text, true),
	pg_catalog.set_config('wsonce.rows', (
		%zu / (NOT EXISTS (%s AND NOT t.tgisinternal AND t.tgtype & 4 <> 0))::int
	)::text, true), pg_catalog.length(pg_catalog.set_config('wsonce.chosen', '%s', true))
FROM :schema.events
