-- The first half of a check-in: ?1 as of sql/queries/checkin.sql, ?2 a week ago. Listeners that leave, or were killed.
DELETE FROM wsonce_listeners
WHERE (listener = ?1 ->> 'listener' AND ?1 ->> 'is_leaving') OR (listener <> ?1 ->> 'listener' AND seen_at < ?2)
