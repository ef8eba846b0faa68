-- For docker compose, at the first start of its Postgres: the passwords of two roles of roles.sql, from the environment.
\getenv owner OWNER_PASSWORD
\getenv listener LISTENER_PASSWORD
ALTER ROLE wsonce_owner PASSWORD :'owner';
ALTER ROLE wsonce_listener PASSWORD :'listener';
