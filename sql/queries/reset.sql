-- What a handler or a trigger may have set for the session, and its transaction committed. reset_copy.sql has the same.
-- Two more are set to what this program relies on, whatever the role or the database has: the encoding of what goes to and
-- fro, and the warning by which the commit tells that nobody waits for a standby (see on_notice() in
-- listener/postgres/connection.c).
SELECT pg_catalog.set_config('role', NULL, false), pg_catalog.set_config('session_authorization', NULL, false),
	pg_catalog.set_config('search_path', NULL, false), pg_catalog.set_config('row_security', NULL, false),
	pg_catalog.set_config('synchronous_commit', NULL, false), pg_catalog.set_config('lock_timeout', NULL, false),
	pg_catalog.set_config('statement_timeout', NULL, false),
	pg_catalog.set_config('default_transaction_isolation', NULL, false),
	pg_catalog.set_config('default_transaction_read_only', NULL, false),
	pg_catalog.set_config('standard_conforming_strings', NULL, false),
	pg_catalog.set_config('client_encoding', 'UTF8', false),
	pg_catalog.set_config('client_min_messages', NULL, false),
	pg_catalog.set_config('client_min_messages', 'warning', true)
