-- The same as export_settled.sql. ?1 now, in us since 1970.
SELECT at, name FROM (
	SELECT CAST(?1 AS INTEGER) AS at, NULL AS name
	UNION ALL
	SELECT coalesce(report ->> 'settled_us', CAST(strftime('%s', started_at) AS INTEGER) * 1000000),
		substr(listener, 1, length(listener) - 17)
	FROM wsonce_listeners WHERE CAST(strftime('%s', seen_at) AS INTEGER) * 1000000 > CAST(?1 AS INTEGER) - 3600000000
) ORDER BY at LIMIT 1
