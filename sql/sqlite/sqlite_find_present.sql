-- Is the event ?1 stored?
SELECT 1 FROM events WHERE event_id = ?1
