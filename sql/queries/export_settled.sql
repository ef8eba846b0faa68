-- Until when no listener will store a row any more: microseconds since 1970, and the listener that keeps it from being
-- later, or NULL. A listener has told at its last check-in since when it has events without an outcome; an older one
-- how long it has had them; a command tells nothing. On a standby, what the primary has committed since is unknown.
SELECT (extract(epoch FROM at) * 1000000)::bigint, name FROM (
	SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN coalesce(pg_catalog.pg_last_xact_replay_timestamp(), 'epoch')
		ELSE now() END AS at, NULL AS name
	UNION ALL
	SELECT coalesce(timestamptz 'epoch' + (report->>'settled_us')::bigint * interval '1 microsecond',
			seen_at - (report->>'oldest_ms')::bigint * interval '1 millisecond', started_at),
		pg_catalog.left(listener, -17)
	FROM :schema.wsonce_listeners WHERE seen_at > now() - interval '1 hour'
) AS told ORDER BY at, name LIMIT 1
