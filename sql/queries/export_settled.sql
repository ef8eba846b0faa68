-- Returns the time (microseconds since 1970) before which no listener will store more rows, and the listener because of
-- which it is not later, or NULL. At a check-in, listeners and commands report since when they have events without an
-- outcome; older listeners report for how long, and older commands nothing. On a standby, later commits of the primary
-- are unknown.
SELECT (extract(epoch FROM at) * 1000000)::bigint, name FROM (
	SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN coalesce(pg_catalog.pg_last_xact_replay_timestamp(), 'epoch')
		ELSE pg_catalog.now() END AS at, NULL AS name
	UNION ALL
	SELECT coalesce(timestamptz 'epoch' + (report->>'settled_us')::bigint * interval '1 microsecond',
			seen_at - (report->>'oldest_ms')::bigint * interval '1 millisecond', started_at),
		pg_catalog.left(listener, -17)
	FROM :schema.wsonce_listeners WHERE seen_at > pg_catalog.now() - interval '1 hour'
) AS told ORDER BY at, name LIMIT 1
