-- Which of these events are stored already. $1 ids, sorted. OFFSET 0 keeps the planner from reading the
-- whole table: each id is looked up in the index.
SELECT id FROM unnest($1::text[]) AS wanted(id)
WHERE EXISTS (SELECT FROM events WHERE event_id = wanted.id OFFSET 0)
