-- Records dead letters. $1 digests, $2 ids (NULL if there is none), $3 reasons, $4 raw messages, $5 senders (NULL if
-- unknown), $6 types and $7 sources of what a profile read (else NULL), $8 this instance, $9 its consumer, $10 whether
-- the ids are exact. Sorts by digest, so that two listeners do not deadlock. Counts equal digests in the batch, since ON
-- CONFLICT cannot update a row twice. A letter that comes again is open again, with the new reason. A stored event gets
-- no letter. Returns the epoch (see epoch.sql), the places of stored events in the arrays, from 1, and as negative
-- numbers the places of letters that a trigger suppressed.
WITH letter AS MATERIALIZED (
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[])
	WITH ORDINALITY AS l (digest, event_id, reason, raw, sender, event_type, source, place)
), stored AS MATERIALIZED (
	SELECT place FROM letter JOIN :schema.events AS e USING (event_id)
	WHERE $10::bool AND $9::text = '' AND e.event_id COLLATE "C" = letter.event_id COLLATE "C"
	UNION ALL
	SELECT place FROM letter JOIN :schema.processed_events AS p USING (event_id)
	WHERE $10::bool AND $9::text <> '' AND p.consumer = $9
	ORDER BY place
), written AS (
	INSERT INTO :schema.dead_letters (digest, event_id, reason, raw, sender, event_type, source, instance_id,
		consumer, seen)
	SELECT DISTINCT ON (digest) digest, event_id, reason, raw, sender, event_type, source, $8::text, $9,
		pg_catalog.count(*) OVER (PARTITION BY digest)
	FROM letter WHERE place NOT IN (SELECT place FROM stored)
	ORDER BY digest
	ON CONFLICT (digest) DO UPDATE SET
		seen = dead_letters.seen + excluded.seen,
		last_seen = greatest(dead_letters.last_seen, pg_catalog.now()),
		event_id = coalesce(excluded.event_id, dead_letters.event_id),
		reason = excluded.reason,
		sender = coalesce(excluded.sender, dead_letters.sender),
		source = coalesce(excluded.source, dead_letters.source),
		resolved_at = NULL,
		resolution = NULL
	RETURNING digest
)
:epoch UNION ALL SELECT place::text || (
		-- Waits until the standby has those rows, as in find_present.sql.
		SELECT CASE WHEN pg_catalog.current_setting('synchronous_standby_names') = '' THEN ''
			ELSE pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'wsonce', ''::text)::text, 0) END
	)
FROM stored
UNION ALL SELECT (-place)::text FROM letter
WHERE place NOT IN (SELECT place FROM stored) AND digest NOT IN (SELECT digest FROM written)
	AND NOT EXISTS (SELECT FROM :schema.dead_letters AS d WHERE d.digest = letter.digest)
