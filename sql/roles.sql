-- Four roles for wsonce, each with what it needs and nothing else. Run it once in the database, as its superuser, and as
-- often as you like: psql -v ON_ERROR_STOP=1 -f sql/roles.sql. It takes the first schema of the search_path.
--
--   wsonce_owner     owns the tables: wsonce migrate
--   wsonce_listener  stores events: wsonce listen. It changes and deletes none.
--   wsonce_operator  all other commands: dead-letters, audit, replay, purge, stats
--   wsonce_reader    reads, for dashboards and people
--
-- They may log in and have no password: give them one (\password wsonce_listener), or make them peers in pg_hba.conf.
-- Rights on the tables come with wsonce migrate, which is run after this and after each upgrade (sql/queries/grants.sql).
DO $$
DECLARE
	schema TEXT := pg_catalog.current_schema();
	title  TEXT;
BEGIN
	FOREACH title IN ARRAY ARRAY['wsonce_owner', 'wsonce_listener', 'wsonce_operator', 'wsonce_reader'] LOOP
		BEGIN
			EXECUTE pg_catalog.format('CREATE ROLE %I LOGIN', title);
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL; -- it is there, perhaps since this moment, for another database
		END;
		EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I', schema, title);
		EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO %I', pg_catalog.current_database(), title);
	END LOOP;
	-- Whoever may create objects in front of ours could make others run them (CVE-2018-1058).
	EXECUTE pg_catalog.format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', schema);
	EXECUTE pg_catalog.format('GRANT CREATE ON SCHEMA %I TO wsonce_owner', schema);
	EXECUTE pg_catalog.format('GRANT TEMPORARY ON DATABASE %I TO wsonce_operator', pg_catalog.current_database());
	-- Tables of a fleet that ran without these roles.
	FOR title IN
		SELECT pg_catalog.format('%I.%I', schema, c.relname) FROM pg_catalog.pg_class AS c
		JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = schema AND c.relkind IN ('r', 'p') AND c.relname IN ('events', 'dead_letters',
			'dead_letter_actions', 'processed_events', 'outbox', 'delivery_actions', 'wsonce_schema',
			'wsonce_listeners', 'wsonce_retention', 'wsonce_duplicates', 'wsonce_database', 'wsonce_epoch', 'cursors')
	LOOP
		EXECUTE pg_catalog.format('ALTER TABLE %s OWNER TO wsonce_owner', title);
	END LOOP;
END
$$;
