-- Records dead letters. $1 digests, $2 ids (NULL where there is none), $3 reasons, $4 raw messages,
-- $5 this instance, $6 its consumer. Sorted by digest, so that two listeners do not wait for each other's rows; a
-- digest that is twice in the batch is counted, since ON CONFLICT cannot touch a row twice. One that
-- comes again is open again, for the reason that it has now.
INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id, consumer, seen)
SELECT DISTINCT ON (digest) digest, event_id, reason, raw, $5, $6, count(*) OVER (PARTITION BY digest)
FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bytea[]) AS letter(digest, event_id, reason, raw)
ORDER BY digest
ON CONFLICT (digest) DO UPDATE SET
	seen = dead_letters.seen + excluded.seen,
	last_seen = greatest(dead_letters.last_seen, now()),
	event_id = coalesce(excluded.event_id, dead_letters.event_id),
	reason = excluded.reason,
	resolved_at = NULL,
	resolution = NULL
