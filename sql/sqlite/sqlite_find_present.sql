-- Returns a row if event ?1 is stored.
SELECT 1 FROM events WHERE event_id = ?1
