-- The parameters of purge_change.sql. Returns the ids of events whose dead marks in Redis belong to dead letters that go, or
-- to others in the range. Marks are no older than the dedup window of the listeners; an hour is for clocks that differ.
SELECT event_id FROM :schema.dead_letters
WHERE id > $1::bigint AND id <= $3::bigint AND event_id IS NOT NULL AND last_seen < $2::timestamptz
	AND last_seen > now() - interval '1 hour' - interval '1 second'
		* (SELECT coalesce(pg_catalog.max(dedup_window_s), 0) FROM :schema.wsonce_listeners)
