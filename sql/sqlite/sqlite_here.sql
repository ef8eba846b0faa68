-- Second half of a check-in: ?1 as in sqlite_gone.sql, ?2 now.
INSERT INTO wsonce_listeners (listener, max_age_s, dedup_window_s, started_at, seen_at, report)
SELECT ?1 ->> 'listener', ?1 ->> 'max_age_s', ?1 ->> 'dedup_window_s', ?2, ?2, ?1 -> 'report' WHERE NOT ?1 ->> 'is_leaving'
ON CONFLICT (listener) DO UPDATE SET seen_at = excluded.seen_at, report = excluded.report
