-- Inserts one event of a batch. ?1 id, ?2 type, ?3 payload, ?4 now, ?5 source, ?6 instance, ?7 time received, ?8 time
-- of the event.
INSERT INTO events (event_id, event_type, payload, processed_at, source, instance, received_at, event_time)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (event_id) DO NOTHING
