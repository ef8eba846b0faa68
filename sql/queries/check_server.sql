-- What wsonce check finds out about the server: the kind of a finding (0 ok, 1 a warning, 2 wrong), its subject, and its
-- text. $1: our clock in ms since 1970. check.c puts WITH found (hazards) AS (hazards.sql) before it.
SELECT kind, what, text
FROM found CROSS JOIN (
	SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_version_num')::int >= 130000,
		pg_catalog.current_setting('server_encoding'),
		(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - $1::bigint
) AS server (version, is_new, encoding, off_ms) CROSS JOIN LATERAL (VALUES
	(CASE WHEN is_new THEN 0 ELSE 2 END, 'postgres', version || CASE WHEN is_new
		THEN ', time zone ' || pg_catalog.current_setting('TimeZone') ELSE ' is too old: 13 or later is needed' END),
	(1, 'encoding', CASE WHEN encoding <> 'UTF8' THEN encoding || ': events with characters outside of it become dead '
		'letters; create the database with ENCODING UTF8' END),
	(1, 'durability', CASE WHEN hazards <> ''
		THEN hazards || ': a crash or a failover of Postgres may lose rows that were acked' END),
	(CASE WHEN pg_catalog.abs(off_ms) > 2000 THEN 1 ELSE 0 END, 'clock', off_ms || ' ms off Postgres''s'
		|| CASE WHEN pg_catalog.abs(off_ms) > 2000 THEN ': correct one of them (NTP)' ELSE '' END)
) AS finding (kind, what, text) WHERE text IS NOT NULL
