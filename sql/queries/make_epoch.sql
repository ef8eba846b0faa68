-- Begins an epoch, unless another listener was faster. Replaces a row restored from a dump.
INSERT INTO :schema.wsonce_epoch AS e DEFAULT VALUES
ON CONFLICT (is_only) DO UPDATE SET epoch = excluded.epoch, home = excluded.home WHERE e.xmin <> e.home
