-- What a handler or a trigger may have set for the session, and its transaction committed. reset_copy.sql has the same.
SELECT pg_catalog.set_config('role', NULL, false), pg_catalog.set_config('session_authorization', NULL, false),
	pg_catalog.set_config('search_path', NULL, false), pg_catalog.set_config('row_security', NULL, false),
	pg_catalog.set_config('synchronous_commit', NULL, false), pg_catalog.set_config('lock_timeout', NULL, false),
	pg_catalog.set_config('statement_timeout', NULL, false),
	pg_catalog.set_config('default_transaction_isolation', NULL, false),
	pg_catalog.set_config('default_transaction_read_only', NULL, false)
