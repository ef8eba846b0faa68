-- Sets the passwords of two roles of roles.sql from the environment, when the Postgres of docker compose first starts.
\getenv owner OWNER_PASSWORD
\getenv listener LISTENER_PASSWORD
ALTER ROLE wsonce_owner PASSWORD :'owner';
ALTER ROLE wsonce_listener PASSWORD :'listener';
