-- Follows each statement that may run foreign code. First runs what a handler or a trigger has deferred to the commit,
-- where it could change the settings by which the commit reports. Then resets what they may have changed.
-- Two settings get the values that this program needs, whatever the role or the database has: the encoding of values and
-- answers, and the warning by which a commit reports that it does not wait for a standby (see on_notice() in
-- listener/postgres/connection.c).
SET CONSTRAINTS ALL IMMEDIATE; RESET role; RESET session_authorization; RESET search_path; RESET row_security;
RESET synchronous_commit; RESET lock_timeout; RESET statement_timeout; RESET default_transaction_isolation;
RESET default_transaction_read_only; RESET standard_conforming_strings; SET client_encoding = 'UTF8';
RESET client_min_messages; SET LOCAL client_min_messages = warning; UNLISTEN *
