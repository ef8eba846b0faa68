-- Inspects the database on each new connection, before anything is created or stored. $1 the tables that this program
-- writes. Returns the schema of our tables, or of those to create (NULL: none); whether they exist; the first fault that
-- makes this database unusable; warnings for its owner; the role's lock_timeout and statement_timeout in ms,
-- or 0; whether the server is read-only; whether events is partitioned (NULL if it does not exist); whether triggers may
-- change or drop its rows before they are stored; the names of all CHECK constraints, each on a line that begins with =
-- if no event fills any of its columns, and with + otherwise; the columns of events that no event fills, each on a
-- line; and the warning about rows that the role may not see.
--
-- The parts path and lookalikes name pg_catalog with each operator and type, so that what they look for cannot hide it.
-- An operator of another schema is used if that comes first, or if none of pg_catalog has exactly its operands.
WITH path AS MATERIALIZED (
	SELECT n.oid, nspname AS schema, place OPERATOR(pg_catalog.<) pg_catalog.array_position(s, 'pg_catalog') AS is_first
	FROM pg_catalog.current_schemas(true) AS c (s), pg_catalog.unnest(s) WITH ORDINALITY AS p (name, place)
	JOIN pg_catalog.pg_namespace AS n ON nspname OPERATOR(pg_catalog.=) name
	WHERE name OPERATOR(pg_catalog.<>) 'pg_catalog'
), lookalikes (title, schema) AS MATERIALIZED (
	SELECT pg_catalog.format('type %I.%I', schema, typname), schema
	FROM path AS p JOIN pg_catalog.pg_type ON typnamespace OPERATOR(pg_catalog.=) p.oid
	WHERE is_first AND typname OPERATOR(pg_catalog.=) ANY (
		'{bool,bytea,float8,json,jsonb,oid,regclass,regtype,text,timestamptz,uuid,xid}'::pg_catalog.name[])
	UNION ALL
	SELECT pg_catalog.format('operator %I.%s (%s, %s)', schema, oprname, pg_catalog.format_type(oprleft, NULL),
		pg_catalog.format_type(oprright, NULL)), schema
	FROM path AS p JOIN pg_catalog.pg_operator AS o ON oprnamespace OPERATOR(pg_catalog.=) p.oid
	CROSS JOIN (SELECT E'{bool,bytea,"\\"char\\"",float8,int2,int4,int8,interval,json,jsonb,name,numeric,oid,text,'
		'timestamptz,varchar,xid}'::pg_catalog.regtype[]::pg_catalog.oid[]) AS u (ours)
	WHERE oprleft OPERATOR(pg_catalog.=) ANY (ours) AND oprright OPERATOR(pg_catalog.=) ANY (ours) AND EXISTS (
		SELECT FROM pg_catalog.pg_operator AS c, pg_catalog.pg_type AS l, pg_catalog.pg_type AS r,
			pg_catalog.pg_type AS cl, pg_catalog.pg_type AS cr
		WHERE c.oprname OPERATOR(pg_catalog.=) o.oprname AND c.oid OPERATOR(pg_catalog.<) 10000
			AND l.oid OPERATOR(pg_catalog.=) o.oprleft AND r.oid OPERATOR(pg_catalog.=) o.oprright
			AND cl.oid OPERATOR(pg_catalog.=) c.oprleft AND cr.oid OPERATOR(pg_catalog.=) c.oprright
			AND cl.typcategory OPERATOR(pg_catalog.=) l.typcategory
			AND cr.typcategory OPERATOR(pg_catalog.=) r.typcategory
		HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0 AND (is_first OR NOT pg_catalog.bool_or(
			c.oprleft OPERATOR(pg_catalog.=) o.oprleft AND c.oprright OPERATOR(pg_catalog.=) o.oprright))
	)
), place AS MATERIALIZED (
	SELECT n.oid AS schema, pg_catalog.quote_ident(n.nspname) AS name, v.oid IS NOT NULL AS is_ours
	FROM (SELECT pg_catalog.to_regclass('wsonce_schema')::pg_catalog.oid) AS visible (versions)
	LEFT JOIN pg_catalog.pg_class AS v ON v.oid = versions
	LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = v.relnamespace
		OR (v.oid IS NULL AND n.nspname = pg_catalog.current_schema())
), wanted (name, fields, filled) AS (
	VALUES ('events', '{"id": "bigint", "event_id": "text", "event_type": "text", "payload": "jsonb",
			"processed_at": "time"}'::pg_catalog.jsonb, '{event_id,event_type,payload}'::pg_catalog.text[]),
		('dead_letters', '{"id": "bigint", "digest": "bytea", "event_id": "text", "reason": "text", "raw": "bytea",
			"seen": "bigint"}', '{digest,reason,raw,instance_id,consumer,seen}'),
		('processed_events', '{"consumer": "text", "event_id": "text", "processed_at": "time"}', '{consumer,event_id}'),
		('outbox', '{"id": "bigint", "target": "text", "event_id": "text", "event_type": "text", "payload": "jsonb",
			"state": "text"}', '{target,event_id,event_type,payload}'),
		('cursors', '{"source": "text", "scope": "text", "kind": "text", "value": "text", "variables": "text"}',
			'{source,scope,kind,value,instance_id}')
), tables AS MATERIALIZED (
	SELECT c.oid, p.name || '.' || pg_catalog.quote_ident(c.relname) AS title, c.relname AS name, relkind,
		relpersistence, w.fields, w.filled
	FROM place AS p
	JOIN pg_catalog.pg_class AS c ON c.relnamespace = p.schema
	LEFT JOIN wanted AS w ON w.name = c.relname
	WHERE w.name IS NOT NULL OR c.relname = ANY ($1::pg_catalog.text[])
), fields AS (
	SELECT t.title, t.name AS table_name, a.attname = ANY (t.filled) OR a.attgenerated <> '' AS is_filled, a.attname AS name, a.*,
		CASE y.name
		WHEN 'character varying' THEN 'text' WHEN 'integer' THEN 'bigint'
		WHEN 'timestamp with time zone' THEN 'time' ELSE y.name END AS type
	FROM tables AS t JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
	CROSS JOIN LATERAL pg_catalog.replace(pg_catalog.format_type(a.atttypid, NULL), '"', '') AS y (name) -- quotes come from quote_all_identifiers
), keys AS (
	SELECT i.* FROM tables AS t JOIN pg_catalog.pg_index AS i ON i.indrelid = t.oid
	JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] AND a.attname = 'event_id'
	LEFT JOIN pg_catalog.pg_collation AS l ON l.oid = i.indcollation[0]
	WHERE t.name = 'events' AND i.indnkeyatts = 1 AND i.indisunique AND i.indisvalid AND i.indimmediate
		AND i.indpred IS NULL AND l.collisdeterministic
), rights (name, may) AS (
	VALUES ('events', 'SELECT'), ('events', 'INSERT'), ('dead_letters', 'SELECT'), ('dead_letters', 'INSERT'),
		('dead_letters', 'UPDATE'), ('processed_events', 'SELECT'), ('processed_events', 'INSERT'),
		('outbox', 'SELECT'), ('outbox', 'INSERT'), ('outbox', 'UPDATE'), ('webhook_pauses', 'SELECT'),
		('webhook_pauses', 'INSERT'),
		('wsonce_listeners', 'SELECT'), ('wsonce_listeners', 'INSERT'), ('wsonce_listeners', 'UPDATE'),
		('wsonce_listeners', 'DELETE'), ('wsonce_duplicates', 'SELECT'), ('wsonce_duplicates', 'INSERT'),
		('wsonce_duplicates', 'UPDATE'), ('wsonce_retention', 'SELECT'),
		('wsonce_database', 'SELECT'), ('wsonce_epoch', 'SELECT'), ('wsonce_epoch', 'INSERT'), ('wsonce_epoch', 'UPDATE'),
		('wsonce_leases', 'SELECT'), ('wsonce_leases', 'INSERT'), ('wsonce_leases', 'UPDATE'),
		('cursors', 'SELECT'), ('cursors', 'INSERT'), ('cursors', 'UPDATE'),
		('line_minutes', 'SELECT'), ('line_minutes', 'INSERT'), ('line_minutes', 'UPDATE'), ('line_minutes', 'DELETE')
), missing (title, may) AS (
	SELECT title, may
	FROM tables JOIN rights USING (name)
	WHERE CASE WHEN name = 'processed_events' AND may = 'SELECT' THEN 'dead_letters' ELSE name END -- write_dead_letters.sql reads it
		= ANY ($1::pg_catalog.text[]) AND NOT CASE
		WHEN may = 'DELETE' OR name = 'wsonce_epoch' THEN pg_catalog.has_table_privilege(oid, may) -- or it is not to be locked
		ELSE pg_catalog.has_any_column_privilege(oid, may) END
	UNION ALL
	SELECT 'SEQUENCE ' || sequence, 'USAGE'
	FROM fields CROSS JOIN LATERAL pg_catalog.pg_get_serial_sequence(title, name) AS sequence
	WHERE name = 'id' AND atthasdef AND table_name = ANY ($1::pg_catalog.text[])
		AND NOT pg_catalog.has_sequence_privilege(sequence, 'USAGE, UPDATE')
	UNION ALL
	SELECT 'LANGUAGE plpgsql', 'USAGE'
	FROM pg_catalog.pg_language WHERE lanname = 'plpgsql' AND NOT pg_catalog.has_language_privilege(oid, 'USAGE')
	UNION ALL
	SELECT title, 'INSERT'
	FROM fields
	WHERE table_name = 'events' AND name IN ('source', 'instance', 'received_at', 'event_time')
		AND 'events' = ANY ($1::pg_catalog.text[]) AND NOT pg_catalog.has_column_privilege(attrelid, attnum, 'INSERT')
), faults (rank, fault) AS (
	SELECT 0, pg_catalog.format('the %s hides one of Postgres that wsonce uses: drop it, or take %I out of the search_path '
		'of the role %I', title, schema, current_user)
	FROM lookalikes
	UNION ALL
	SELECT 1, pg_catalog.format('%s is not a table: give wsonce a schema or a database of its own', title)
	FROM tables WHERE relkind NOT IN ('r', 'p')
	UNION ALL
	SELECT 2, pg_catalog.format('the table %s belongs to another program (its column %s is %s and should be %s): '
		'give wsonce a schema or a database of its own', t.title, w.key, coalesce(f.type, 'missing'), w.value)
	FROM tables AS t CROSS JOIN LATERAL pg_catalog.jsonb_each_text(t.fields) AS w
	LEFT JOIN fields AS f ON f.attrelid = t.oid AND f.name = w.key
	WHERE f.type IS DISTINCT FROM w.value
	UNION ALL
	SELECT 3, pg_catalog.format('the table %s has a column %s that wsonce does not fill: give it a default, or let it '
		'be NULL', title, pg_catalog.quote_ident(name))
	FROM fields
	WHERE table_name = ANY ($1::pg_catalog.text[]) AND attnotnull AND NOT atthasdef AND attidentity = '' AND NOT is_filled
	UNION ALL
	SELECT 3, pg_catalog.format('the next %s of the table %s is greater than an integer: ALTER TABLE %2$s ALTER COLUMN %1$s '
		'TYPE bigint', name, title)
	FROM fields CROSS JOIN LATERAL pg_catalog.pg_get_serial_sequence(title, name) AS sequence
	WHERE name = 'id' AND atttypid = 'pg_catalog.int4'::pg_catalog.regtype AND table_name = ANY ($1::pg_catalog.text[]) AND CASE
		WHEN pg_catalog.has_sequence_privilege(sequence, 'USAGE, SELECT')
		THEN pg_catalog.pg_sequence_last_value(sequence::pg_catalog.regclass) > 2147483647 END
	UNION ALL
	SELECT 4, pg_catalog.format('the table %s lets an event be stored twice: it has no valid unique index on event_id '
		'alone; ' || CASE WHEN relkind = 'p' AND pg_catalog.pg_get_partkeydef(oid) NOT LIKE '%%(event_id)'
			THEN 'its partitions must be by event_id, see wsonce schema --layout partitioned=N'
			ELSE 'remove duplicate rows, then ALTER TABLE %1$s ADD UNIQUE (event_id)' END, title)
	FROM tables WHERE name = 'events' AND NOT EXISTS (SELECT FROM keys)
	UNION ALL
	SELECT 4, pg_catalog.format('the table %s lets an event be stored twice: its unique index does not cover the rows of '
		'%s, which inherits from it: ALTER TABLE %2$s NO INHERIT %1$s', title, i.inhrelid::pg_catalog.regclass)
	FROM tables JOIN pg_catalog.pg_inherits AS i ON i.inhparent = oid WHERE name = 'events' AND relkind = 'r'
	UNION ALL
	SELECT 5, pg_catalog.format('the table %s.events is missing, though %1$s.wsonce_schema exists: restore '
		'it, or drop the other tables of wsonce as well', name)
	FROM place WHERE is_ours AND NOT EXISTS (SELECT FROM tables WHERE name = 'events')
	UNION ALL
	SELECT 6, pg_catalog.format('the role %s lacks rights: %s', pg_catalog.quote_ident(current_user), pg_catalog.string_agg(
		pg_catalog.format('GRANT %s ON %s TO %I', may, title, current_user), '; ' ORDER BY title COLLATE "C"))
	FROM (SELECT title, pg_catalog.string_agg(DISTINCT may, ', ') FROM missing GROUP BY title) AS m (title, may)
	HAVING pg_catalog.count(*) > 0
	UNION ALL
	SELECT 8, pg_catalog.format('the table %s has a column %s of type %s, where wsonce keeps a %s: rename it', title, w.name,
		f.type, w.type)
	FROM (VALUES ('source', 'text'), ('instance', 'text'), ('received_at', 'time'), ('event_time', 'time')) AS w (name, type)
	JOIN fields AS f ON f.name = w.name AND f.type <> w.type
	WHERE table_name = 'events'
), warnings (warning, hides_rows) AS (
	SELECT pg_catalog.format('%s is UNLOGGED: a crash of Postgres empties it', title), false
	FROM tables WHERE relpersistence = 'u' AND fields IS NOT NULL
	UNION ALL
	SELECT pg_catalog.format('row-level security of %s applies to the role %s, which must see all rows',
		pg_catalog.string_agg(title, ', ' ORDER BY title COLLATE "C"), current_user), true
	FROM tables WHERE pg_catalog.row_security_active(oid) HAVING pg_catalog.count(*) > 0
	UNION ALL
	SELECT pg_catalog.format('%s may create functions and operators in %s, which is in the search_path, and have them run '
		'with the rights of %s (CVE-2018-1058): REVOKE CREATE ON SCHEMA %2$s FROM %1$s',
		pg_catalog.string_agg(coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC'), ', ' ORDER BY r.rolname),
		pg_catalog.quote_ident(n.nspname), pg_catalog.quote_ident(current_user)), false
	FROM pg_catalog.pg_namespace AS n
	CROSS JOIN LATERAL pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) AS a
	LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
	WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND a.privilege_type = 'CREATE'
		AND a.grantee NOT IN (SELECT n.nspowner UNION SELECT c.relowner FROM tables JOIN pg_catalog.pg_class AS c USING (oid)
			UNION SELECT u.oid FROM pg_catalog.pg_roles AS u WHERE u.rolname = current_user OR u.rolsuper)
	GROUP BY n.nspname
	UNION ALL
	SELECT pg_catalog.format('the unique index on %s(event_id) sorts as the operating system does, so an upgrade of '
		'that can corrupt it: ALTER TABLE %1$s ALTER COLUMN event_id TYPE varchar COLLATE "C" rewrites it', t.title), false
	FROM tables AS t
	WHERE t.name = 'events' AND NOT EXISTS (
		SELECT FROM keys AS k JOIN pg_catalog.pg_collation AS l ON l.oid = k.indcollation[0]
		LEFT JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database() AND l.collprovider = 'd'
		LEFT JOIN LATERAL (SELECT pg_catalog.to_jsonb(d)->>'datlocprovider') AS p (provider) ON true
		WHERE coalesce(provider, l.collprovider::pg_catalog.text) = 'b'
			OR (coalesce(d.datcollate, l.collcollate) IN ('C', 'POSIX') AND coalesce(provider, 'c') = 'c')
	)
)
SELECT name, is_ours, (SELECT fault FROM faults ORDER BY rank, fault LIMIT 1),
	(SELECT pg_catalog.string_agg(warning, '; ') FROM warnings),
	(SELECT reset_val FROM pg_catalog.pg_settings AS s WHERE s.name = 'lock_timeout'),
	(SELECT reset_val FROM pg_catalog.pg_settings AS s WHERE s.name = 'statement_timeout'),
	pg_catalog.current_setting('transaction_read_only') = 'on',
	(SELECT relkind = 'p' FROM tables WHERE tables.name = 'events'),
	EXISTS (SELECT FROM tables AS t
		CROSS JOIN LATERAL (SELECT t.oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(t.oid)) AS p (relid)
		JOIN pg_catalog.pg_trigger AS g ON g.tgrelid = p.relid
		WHERE t.name = 'events' AND g.tgtype & 7 = 7 AND g.tgenabled <> 'D'), -- BEFORE INSERT FOR EACH ROW
	(SELECT pg_catalog.string_agg(pg_catalog.format(E'\n%s%s\n', CASE WHEN EXISTS (
			SELECT FROM fields AS f WHERE f.attrelid = t.oid AND f.attnum = ANY (c.conkey)
				AND (f.is_filled OR f.name = 'event_time'))
		THEN '+' ELSE '=' END, c.conname), '')
	FROM tables AS t JOIN pg_catalog.pg_constraint AS c ON c.conrelid = t.oid AND c.contype = 'c'
	WHERE t.filled IS NOT NULL),
	(SELECT pg_catalog.string_agg(E'\n' || f.name || E'\n', '' ORDER BY f.name) FROM fields AS f
	WHERE f.table_name = 'events' AND NOT f.is_filled AND f.name <> 'event_time'),
	(SELECT warning FROM warnings WHERE hides_rows) AS hidden
FROM place
