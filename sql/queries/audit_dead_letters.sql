-- What dead letters say about the missing events, for Postgres and SQLite. An event counts as resolved if its letter was
-- stored after an edit, perhaps under another id; if it was stored unchanged, its row should exist. A line that is not
-- an event can only be stored after an edit.
UPDATE wsonce_suspects SET found = k.found
FROM (
	SELECT at, CASE pg_catalog.max(grade) WHEN 4 THEN open WHEN 3 THEN 'discarded' WHEN 2 THEN 'resolved' ELSE 'missing' END AS found
	FROM (
		SELECT s.at, 'open' AS open, l.grade FROM wsonce_suspects AS s JOIN wsonce_letters AS l ON l.event_id = s.id
		UNION ALL
		SELECT s.at, 'no event', CASE l.grade WHEN 1 THEN 2 ELSE l.grade END
		FROM wsonce_suspects AS s JOIN wsonce_letters AS l ON l.digest = s.digest
	) AS letters
	GROUP BY at, open
) AS k
WHERE k.at = wsonce_suspects.at AND wsonce_suspects.found = 'missing'
