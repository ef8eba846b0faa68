-- Records a dead letter. ?1 digest, ?2 id, ?3 reason, ?4 raw message, ?5 sender, ?6 type and ?7 source of what a
-- profile read, ?8 this instance, ?9 now. A letter that comes again is open again, with the new reason.
INSERT INTO dead_letters AS d (digest, event_id, reason, raw, sender, event_type, source, instance_id, first_seen,
	last_seen)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
ON CONFLICT (digest) DO UPDATE SET
	seen = d.seen + 1,
	last_seen = max(d.last_seen, excluded.last_seen),
	event_id = coalesce(excluded.event_id, d.event_id),
	reason = excluded.reason,
	sender = coalesce(excluded.sender, d.sender),
	source = coalesce(excluded.source, d.source),
	resolved_at = NULL,
	resolution = NULL
