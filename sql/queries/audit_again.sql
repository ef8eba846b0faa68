-- Drops the events that were stored while Redis was asked. For Postgres and SQLite.
DELETE FROM wsonce_suspects
WHERE found = 'missing' AND EXISTS (SELECT 1 FROM wsonce_stored AS e WHERE e.event_id = wsonce_suspects.id)
