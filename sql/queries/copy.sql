-- The batch as a stream, at little more than half the cost of the INSERT; but one row that is there
-- already refuses them all. COPY itself would also work without the unique key: the plan of an INSERT, which is not
-- run, fails with 42P10 then. All are one transaction; the last statement is that of epoch.sql.
EXPLAIN (COSTS off) INSERT INTO :schema.events (event_id, event_type, payload) VALUES ('', '', '0')
	ON CONFLICT (event_id) DO NOTHING;
COPY :schema.events (event_id, event_type, payload, source, received_at, event_time, instance)
	FROM STDIN (FORMAT binary);
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch
