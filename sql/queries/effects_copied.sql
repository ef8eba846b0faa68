-- The beginning of the statement after a COPY of events with effects: the rows of this transaction. The upper bound of
-- the id is for a table without statistics: from a lower bound alone the planner expects a third of all rows. If more
-- than one part reads fresh, Postgres materializes it, so it has only the columns needed.
WITH fresh AS (
	SELECT %s FROM :schema.events
	WHERE id > pg_catalog.current_setting('wsonce.before')::bigint
		AND id <= least(pg_catalog.current_setting('wsonce.before')::bigint, 9223372035854775807) + 1000000000
		AND xmin = pg_catalog.pg_current_xact_id()::xid
	ORDER BY id
)
