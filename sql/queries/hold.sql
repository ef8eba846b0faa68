-- Takes or renews the lease $1 for the owner $2, if it has it already, if nobody has it (''), or if its state is still $3.
-- Each renewal changes the state, so an owner whose state has not changed for long enough is gone, whatever any clock
-- says. Returns whether the lease is now $2's, and the state; no row if another statement was faster.
WITH taken AS (
	INSERT INTO :schema.wsonce_leases AS l (name, owner) VALUES ($1::text, $2::text)
	ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, turn = l.turn + 1
	WHERE l.owner IN (excluded.owner, '') OR pg_catalog.concat(l.owner, ' ', l.turn) = $3::text
	RETURNING owner, turn
)
SELECT (owner = $2::text)::text, pg_catalog.concat(owner, ' ', turn) FROM taken
UNION ALL SELECT 'false', pg_catalog.concat(owner, ' ', turn) FROM :schema.wsonce_leases
WHERE name = $1::text AND NOT EXISTS (SELECT FROM taken)
