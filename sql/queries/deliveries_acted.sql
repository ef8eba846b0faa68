-- Deliveries that somebody has acted on, for deliveries_find.sql, whose parameters it has. The program adds the order, by
-- which the rows are read from the index of delivery_actions, so a page of ids reads no more than it returns. OFFSET 0
-- keeps the planner from reading the whole outbox for a join.
SELECT DISTINCT ON (delivery_id) delivery_id AS id, o.*
FROM :schema.delivery_actions AS a, LATERAL (
	SELECT target, event_type, status, answer, coalesce(settled_at, created_at) AS at
	FROM :schema.outbox WHERE id = a.delivery_id AND state <> 'dead' OFFSET 0
) AS o
WHERE $4::text IN ('resolved', 'all') AND $1::bigint = 0 AND $2::bigint = 0
	AND delivery_id > $9::bigint AND delivery_id <= $10::bigint
