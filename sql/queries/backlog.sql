-- Deliveries that are still to be made. $1 is how many ms are too long. At most 100,000 rows are looked at.
-- Tells how many there are, how many of them are too old, and of the oldest: age in ms, event id, target.
WITH pending AS MATERIALIZED (
	SELECT target, event_id, created_at FROM outbox WHERE state = 'pending' ORDER BY target, due_at LIMIT 100000
)
SELECT count(*), count(*) FILTER (WHERE created_at < now() - $1::text::bigint * interval '1 millisecond'),
	coalesce(floor(extract(epoch FROM now() - min(created_at)) * 1000), 0),
	(SELECT event_id FROM pending ORDER BY created_at LIMIT 1),
	(SELECT target FROM pending ORDER BY created_at LIMIT 1)
FROM pending
