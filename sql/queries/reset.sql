-- Behind each statement that may run what is not ours. First whatever a handler or a trigger deferred to the commit, where
-- it could set what the commit tells by. Then what they may have set for the session goes back. Two settings become what
-- this program relies on, whatever the role or the database has: the encoding of values and answers, and the warning by
-- which the commit tells that it does not wait for a standby (see on_notice() in listener/postgres/connection.c).
SET CONSTRAINTS ALL IMMEDIATE; RESET role; RESET session_authorization; RESET search_path; RESET row_security;
RESET synchronous_commit; RESET lock_timeout; RESET statement_timeout; RESET default_transaction_isolation;
RESET default_transaction_read_only; RESET standard_conforming_strings; SET client_encoding = 'UTF8';
RESET client_min_messages; SET LOCAL client_min_messages = warning
