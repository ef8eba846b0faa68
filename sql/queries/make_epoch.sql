-- Begins an epoch, unless another listener was faster. Replaces a row restored from a dump, one of a copied database, and
-- one of an earlier run of the server, whose epoch goes on if a listener checked in within the two minutes before the
-- start: then its directory is no old copy.
INSERT INTO :schema.wsonce_epoch AS e DEFAULT VALUES
ON CONFLICT (is_only) DO UPDATE SET home = excluded.home, run = excluded.run, place = excluded.place, epoch = CASE
	WHEN e.xmin = e.home AND e.place = excluded.place AND EXISTS (SELECT FROM :schema.wsonce_listeners
		WHERE seen_at BETWEEN excluded.run - interval '2 minutes' AND excluded.run) THEN e.epoch ELSE excluded.epoch END
WHERE e.xmin <> e.home OR (e.run, e.place) IS DISTINCT FROM (excluded.run, excluded.place)
