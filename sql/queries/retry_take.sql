-- Takes up the dead letters with the ids $1 for a retry, also resolved ones if $2. Returns, for each id in order: the id,
-- the message, why it cannot be fed (0: it can; 1: it is no longer open, unless $2; 2: it is a frame that its profile
-- could not read; 3: only its head is kept), and the event id, type and source. From now on dead_letters_change.sql skips
-- those that are fed. Locks in the order of write_dead_letters.sql.
WITH wanted AS (
	SELECT pg_catalog.unnest($1::bigint[]) AS id
), locked AS (
	SELECT id, event_type IS NOT NULL OR digest = CASE consumer WHEN '' THEN pg_catalog.sha256(raw)
		ELSE pg_catalog.sha256(pg_catalog.sha256(raw) || pg_catalog.convert_to(consumer, 'UTF8')) END AS is_whole
	FROM :schema.dead_letters WHERE id = ANY($1::bigint[]) AND ($2::boolean OR resolved_at IS NULL OR last_seen > resolved_at)
	ORDER BY digest FOR UPDATE
), open AS (
	UPDATE :schema.dead_letters AS d SET retried_at = CASE WHEN is_whole AND (event_type IS NOT NULL OR source IS NULL)
		THEN pg_catalog.now() ELSE retried_at END
	FROM locked WHERE d.id = locked.id RETURNING d.id, raw, is_whole, event_id, event_type, source
)
SELECT w.id, o.raw, CASE WHEN o.id IS NULL THEN 1 WHEN o.event_type IS NULL AND o.source IS NOT NULL THEN 2
	WHEN NOT o.is_whole THEN 3 ELSE 0 END, o.event_id, o.event_type, o.source
FROM wanted AS w LEFT JOIN open AS o USING (id) ORDER BY w.id
