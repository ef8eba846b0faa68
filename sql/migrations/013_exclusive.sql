-- Which listener has an exclusive source, where there is no Redis: see sql/queries/hold.sql. After a crash of Postgres it is
-- empty, as it should be.
CREATE UNLOGGED TABLE IF NOT EXISTS :schema.wsonce_leases (
	name  VARCHAR PRIMARY KEY,
	owner VARCHAR NOT NULL,
	turn  BIGINT NOT NULL DEFAULT 0
);
