-- Returns the row that is due first in lane $3 (as in lease.sql) of target $1: its id, attempts, due_at in us since
-- 1970, and last lease. $2 is the due_at in us below which nothing is due. Does not read the body, so it can name a row
-- that cannot be leased.
SELECT id, attempts, pg_catalog.floor(extract(epoch FROM due_at) * 1000000),
	pg_catalog.concat(leases, '/', pg_catalog.floor(extract(epoch FROM created_at) * 1000000))
FROM :schema.outbox
WHERE target = $1::text AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = $3::text::int AND state = 'pending'
	AND due_at <= pg_catalog.now()
	AND due_at >= timestamptz 'epoch' + $2::text::bigint * interval '1 microsecond'
	AND NOT EXISTS (SELECT FROM :schema.webhook_pauses AS p WHERE p.target = $1::text)
ORDER BY due_at LIMIT 1
