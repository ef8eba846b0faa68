-- Creates four roles for wsonce, each with only the rights it needs. Run it in the database as a superuser:
-- psql -v ON_ERROR_STOP=1 -f sql/roles.sql. It uses the first schema in the search_path, and may be run again.
--
--   wsonce_owner     owns the tables: wsonce migrate
--   wsonce_listener  stores events: wsonce listen. It does not change or delete them.
--   wsonce_operator  all other commands: dead-letters, audit, replay, purge, stats
--   wsonce_reader    reads, for dashboards and people
--
-- They may log in but have no password: set one (\password wsonce_listener), or use peer authentication in pg_hba.conf.
-- wsonce migrate grants the rights to the tables (sql/queries/grants.sql). Run it after this and after each upgrade.
DO $$
DECLARE
	schema TEXT := pg_catalog.current_schema();
	title  TEXT;
BEGIN
	FOREACH title IN ARRAY ARRAY['wsonce_owner', 'wsonce_listener', 'wsonce_operator', 'wsonce_reader'] LOOP
		BEGIN
			EXECUTE pg_catalog.format('CREATE ROLE %I LOGIN', title);
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL; -- it exists, perhaps made at this moment from another database
		END;
		EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I', schema, title);
		EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO %I', pg_catalog.current_database(), title);
	END LOOP;
	-- Roles that may create objects in this schema could make others run them (CVE-2018-1058).
	EXECUTE pg_catalog.format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', schema);
	EXECUTE pg_catalog.format('GRANT CREATE ON SCHEMA %I TO wsonce_owner', schema);
	EXECUTE pg_catalog.format('GRANT TEMPORARY ON DATABASE %I TO wsonce_operator', pg_catalog.current_database());
	-- Takes over the tables of a fleet that ran without these roles.
	FOR title IN
		SELECT pg_catalog.format('%I.%I', schema, c.relname) FROM pg_catalog.pg_class AS c
		JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = schema AND c.relkind IN ('r', 'p') AND c.relname IN ('events', 'dead_letters',
			'dead_letter_actions', 'processed_events', 'outbox', 'delivery_actions', 'wsonce_schema',
			'wsonce_listeners', 'wsonce_retention', 'wsonce_duplicates', 'wsonce_database', 'wsonce_epoch', 'wsonce_leases',
			'cursors', 'line_minutes', 'webhook_pauses')
	LOOP
		EXECUTE pg_catalog.format('ALTER TABLE %s OWNER TO wsonce_owner', title);
	END LOOP;
END
$$;
