-- Lists indexes that only commands need and that are missing or invalid. Returns the statement that drops an invalid
-- one, or NULL; the statement that creates it, and the one that does so without blocking writers; and the size of the
-- table. Lists nothing for a role that does not own the table.
--
-- With these indexes purge can stop early, and explain can find an event. A row of events is in one of the table's two,
-- and moves to the second when its payload is purged.
SELECT CASE WHEN i.indexrelid IS NOT NULL THEN pg_catalog.format('DROP INDEX %I.%I', n.nspname, wanted.name) END AS remove,
	pg_catalog.format('CREATE INDEX %I ON %I.%I %s', wanted.name, n.nspname, t.relname, of) AS make,
	CASE t.relkind WHEN 'r' THEN pg_catalog.format('CREATE INDEX CONCURRENTLY %I ON %I.%I %s', wanted.name, n.nspname,
		t.relname, of) END AS make_beside,
	pg_catalog.pg_table_size(t.oid) AS bytes
FROM (VALUES
	('events_unpurged', 'events', '(processed_at) WHERE purged_at IS NULL'),
	('events_purged', 'events', '(processed_at) WHERE purged_at IS NOT NULL'),
	('dead_letters_open', 'dead_letters', '(consumer, id) WHERE resolved_at IS NULL OR last_seen > resolved_at'),
	('dead_letters_event', 'dead_letters', '(event_id)'),
	('dead_letters_resolved', 'dead_letters', '(last_seen) WHERE last_seen <= resolved_at'),
	('outbox_event', 'outbox', '(event_id)'),
	('outbox_settled', 'outbox', '(settled_at) WHERE state <> ''pending'' AND state <> ''dead'''),
	('processed_events_at', 'processed_events', '(processed_at)'),
	('dead_letter_actions_at', 'dead_letter_actions', '(done_at)'),
	('dead_letter_actions_event', 'dead_letter_actions', '(event_id)'),
	('delivery_actions_at', 'delivery_actions', '(done_at)'),
	('delivery_actions_event', 'delivery_actions', '(event_id)')
) AS wanted (name, "table", of)
JOIN pg_catalog.pg_class AS ours ON ours.oid = pg_catalog.to_regclass('wsonce_schema')
JOIN pg_catalog.pg_namespace AS n ON n.oid = ours.relnamespace
JOIN pg_catalog.pg_class AS t ON t.relnamespace = n.oid AND t.relname = wanted."table"
LEFT JOIN pg_catalog.pg_class AS x ON x.relnamespace = n.oid AND x.relname = wanted.name
LEFT JOIN pg_catalog.pg_index AS i ON i.indexrelid = x.oid
WHERE i.indisvalid IS NOT TRUE AND pg_catalog.pg_has_role(t.relowner, 'USAGE')
