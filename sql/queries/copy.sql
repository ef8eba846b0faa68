-- Stores a batch as a stream, at little more than half the cost of the INSERT. One existing row makes the whole COPY
-- fail. COPY itself would work without the unique key, too; so the plan of an INSERT, which is not run, comes first and
-- fails with 42P10 then. COPY would also take the bytes of a jsonb for those of a text, so that plan applies functions
-- that there are for the right types only. What is sent behind it in the same transaction returns the epoch: copied.sql,
-- or the statement of listener/store/effects.c.
EXPLAIN (COSTS off) INSERT INTO :schema.events (event_id, event_type, payload) VALUES ('', '', '0')
	ON CONFLICT (event_id) DO NOTHING RETURNING pg_catalog.jsonb_typeof(payload), pg_catalog.ascii(event_id),
		pg_catalog.ascii(event_type), pg_catalog.ascii(source), pg_catalog.ascii(instance),
		'empty'::pg_catalog.tstzrange @> received_at, 'empty'::pg_catalog.tstzrange @> event_time;
COPY :schema.events (event_id, event_type, payload, source, received_at, event_time, instance)
	FROM STDIN (FORMAT binary)
