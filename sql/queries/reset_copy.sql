-- reset.sql as commands, behind a COPY: they cost Postgres a third.
RESET role; RESET session_authorization; RESET search_path; RESET row_security; RESET synchronous_commit;
RESET lock_timeout; RESET statement_timeout; RESET default_transaction_isolation; RESET default_transaction_read_only;
RESET standard_conforming_strings; SET client_encoding = 'UTF8'; RESET client_min_messages;
SET LOCAL client_min_messages = warning
