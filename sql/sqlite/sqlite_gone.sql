-- First half of a check-in: deletes listeners that leave or were killed. ?1 as in sql/queries/checkin.sql, ?2 a week
-- ago.
DELETE FROM wsonce_listeners
WHERE (listener = ?1 ->> 'listener' AND ?1 ->> 'is_leaving') OR (listener <> ?1 ->> 'listener' AND seen_at < ?2)
