-- Records dead letters. $1 digests, $2 ids (NULL where there is none), $3 reasons, $4 raw messages,
-- $5 this instance, $6 its consumer, $7 whether the ids are exact. Sorted by digest, so that two listeners do not
-- wait for each other's rows; a digest that is twice in the batch is counted, since ON CONFLICT cannot touch a row
-- twice. One that comes again is open again, for the reason that it has now. An event that is stored gets no letter:
-- tells the epoch (see epoch.sql), and the places of those in the arrays, from 1.
WITH letter AS MATERIALIZED (
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY
	AS l (digest, event_id, reason, raw, place)
), stored AS MATERIALIZED (
	SELECT place FROM letter WHERE $7::bool AND CASE WHEN $6::text = ''
		THEN EXISTS (SELECT FROM :schema.events AS e WHERE e.event_id = letter.event_id OFFSET 0)
		ELSE EXISTS (SELECT FROM :schema.processed_events AS p WHERE p.consumer = $6 AND p.event_id =
			letter.event_id OFFSET 0)
	END
), written AS (
	INSERT INTO :schema.dead_letters (digest, event_id, reason, raw, instance_id, consumer, seen)
	SELECT DISTINCT ON (digest) digest, event_id, reason, raw, $5::text, $6, count(*) OVER (PARTITION BY digest)
	FROM letter WHERE place NOT IN (SELECT place FROM stored)
	ORDER BY digest
	ON CONFLICT (digest) DO UPDATE SET
		seen = dead_letters.seen + excluded.seen,
		last_seen = greatest(dead_letters.last_seen, now()),
		event_id = coalesce(excluded.event_id, dead_letters.event_id),
		reason = excluded.reason,
		resolved_at = NULL,
		resolution = NULL
)
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch UNION ALL SELECT place::text FROM
	stored
