-- Stores a batch as a stream, at little more than half the cost of the INSERT. One existing row makes the whole COPY
-- fail. COPY would also work without the unique key, so the plan of an INSERT, which is not run, comes first: without the
-- key it fails with 42P10. COPY would also write the bytes of a jsonb into a text, so the plan calls functions that exist
-- only for the right types. The statement after it in the same transaction returns the epoch: copied.sql, or that of
-- listener/store/effects.c.
EXPLAIN (COSTS off) INSERT INTO :schema.events (event_id, event_type, payload) VALUES ('', '', '0')
	ON CONFLICT (event_id) DO NOTHING RETURNING pg_catalog.jsonb_typeof(payload), pg_catalog.ascii(event_id),
		pg_catalog.ascii(event_type), pg_catalog.ascii(source), pg_catalog.ascii(instance),
		'empty'::pg_catalog.tstzrange @> received_at, 'empty'::pg_catalog.tstzrange @> event_time;
COPY :schema.events (event_id, event_type, payload, source, received_at, event_time, instance)
	FROM STDIN (FORMAT binary)
