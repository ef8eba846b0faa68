-- Grants the roles of sql/roles.sql their rights to the tables that this role owns. Skips roles that do not exist. A
-- reader cannot see the variables of a cursor, which may let others take over the session.
DO $$
DECLARE
	g RECORD;
BEGIN
	FOR g IN
		SELECT rolname, given.rights, c.oid::pg_catalog.regclass AS title,
			CASE WHEN rights LIKE '%INSERT%' AND has_id THEN pg_catalog.pg_get_serial_sequence(
				pg_catalog.format('%I.%I', n.nspname, c.relname), 'id') END AS sequence
		FROM (VALUES
			('events', true, 'SELECT, INSERT', 'UPDATE, DELETE'),
			('dead_letters', true, 'SELECT, INSERT, UPDATE', 'DELETE'),
			('processed_events', false, 'SELECT, INSERT', 'UPDATE, DELETE'),
			('outbox', true, 'SELECT, INSERT, UPDATE', 'DELETE'),
			('webhook_pauses', false, 'SELECT, INSERT', 'UPDATE, DELETE'),
			('dead_letter_actions', true, 'SELECT', 'INSERT, UPDATE, DELETE'),
			('delivery_actions', true, 'SELECT', 'INSERT, UPDATE, DELETE'),
			('wsonce_listeners', false, 'SELECT, INSERT, UPDATE, DELETE', NULL),
			('wsonce_duplicates', false, 'SELECT, INSERT, UPDATE', NULL),
			('line_minutes', false, 'SELECT, INSERT, UPDATE, DELETE', NULL),
			('wsonce_retention', false, 'SELECT', 'INSERT, UPDATE'),
			('wsonce_schema', false, 'SELECT', NULL),
			('wsonce_database', false, 'SELECT', NULL),
			('wsonce_epoch', false, 'SELECT, INSERT, UPDATE', NULL),
			('wsonce_leases', false, 'SELECT, INSERT, UPDATE', NULL),
			('cursors', false, 'SELECT, INSERT, UPDATE', 'DELETE')
		) AS tables (name, has_id, listener, operator)
		CROSS JOIN LATERAL (VALUES
			('wsonce_listener', listener), ('wsonce_operator', pg_catalog.concat_ws(', ', listener, operator)),
			('wsonce_reader', CASE WHEN name = 'cursors'
				THEN 'SELECT (source, scope, kind, value, instance_id, changed_at)' ELSE 'SELECT' END)
		) AS given (role, rights)
		JOIN pg_catalog.pg_roles ON rolname = role
		JOIN pg_catalog.pg_class AS ours ON ours.oid = pg_catalog.to_regclass('wsonce_schema')
		JOIN pg_catalog.pg_namespace AS n ON n.oid = ours.relnamespace
		JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = name
		WHERE pg_catalog.pg_has_role(c.relowner, 'USAGE')
	LOOP
		EXECUTE pg_catalog.format('GRANT %s ON %s TO %I', g.rights, g.title, g.rolname);
		IF g.sequence IS NOT NULL THEN
			EXECUTE pg_catalog.format('GRANT USAGE ON SEQUENCE %s TO %I', g.sequence, g.rolname);
		END IF;
	END LOOP;
END
$$
