-- Asked on each new connection: the epoch, NULL if it is to be made; the id of the database; and the settings by
-- which commits may vanish when the server crashes, '' if there are none.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home), (SELECT id FROM :schema.wsonce_database), (
	SELECT coalesce(pg_catalog.string_agg(name || ' = ' || setting, ', ' ORDER BY name), '') FROM pg_settings
	WHERE name IN ('fsync', 'synchronous_commit') AND setting = 'off'
)
