-- Begins an epoch, unless another listener was faster. Replaces a row that identify.sql does not count.
INSERT INTO :schema.wsonce_epoch AS e DEFAULT VALUES
ON CONFLICT (is_only) DO UPDATE SET epoch = excluded.epoch, home = excluded.home WHERE e.xmin <> e.home OR (
	SELECT checkpoint_time < pg_catalog.pg_postmaster_start_time() - interval '1 minute'
		AND pg_catalog.age(e.home) > pg_catalog.age(pg_catalog.split_part(next_xid, ':', 2)::xid)
	FROM pg_catalog.pg_control_checkpoint())
