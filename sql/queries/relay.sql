-- One round of the relay: records attempts that have ended, leases rows that are due, and tells these. Of
-- each attempt: $1 the row's id, $2 the attempt's number, $3 its outcome (delivered, retry, dead, unsent),
-- $4 HTTP status, $5 answer, $6 ms until the next attempt. Of each target: $7 name, $8 rows wanted, $9 ms of a lease,
-- $10 the id of the only row wanted, or NULL.
--
-- Whoever leases a row counts its attempts up: a failure is recorded only while the count is still that of
-- the attempt that failed, but a delivery is one, whoever else is at the row.
--
-- The commit does not wait for the disk: a round that a crash of the server undoes has its deliveries made again,
-- under the same keys.
WITH ended AS MATERIALIZED (
	SELECT id::bigint, attempt::int, outcome, status::int, answer, wait::bigint * interval '1 millisecond' AS wait
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
		AS e (id, attempt, outcome, status, answer, wait)
), recorded AS (
	UPDATE outbox AS o SET
		state = CASE WHEN e.outcome IN ('delivered', 'dead') THEN e.outcome ELSE 'pending' END,
		settled_at = CASE WHEN e.outcome IN ('delivered', 'dead') THEN now() END,
		payload = CASE WHEN e.outcome <> 'delivered' THEN o.payload END,
		attempts = o.attempts - CASE WHEN e.outcome = 'unsent' THEN 1 ELSE 0 END,
		due_at = now() + e.wait,
		status = CASE WHEN e.outcome = 'unsent' THEN o.status ELSE e.status END,
		answer = CASE WHEN e.outcome = 'unsent' THEN o.answer ELSE e.answer END
	FROM ended AS e
	WHERE o.id = e.id AND o.state = 'pending' AND (o.attempts = e.attempt OR e.outcome = 'delivered')
), targets AS MATERIALIZED (
	SELECT target, wanted::bigint, lease::bigint * interval '1 millisecond' AS lease, probe::bigint
	FROM unnest($7::text[], $8::text[], $9::text[], $10::text[]) AS t (target, wanted, lease, probe)
	WHERE set_config('synchronous_commit', 'off', true) = 'off'
), due AS MATERIALIZED (
	SELECT d.id FROM targets AS t, LATERAL (
		SELECT o.id FROM outbox AS o
		WHERE o.target = t.target AND o.state = 'pending' AND o.due_at <= now()
			AND o.id <> ALL ($1::text[]::bigint[])
		ORDER BY o.due_at LIMIT t.wanted FOR UPDATE SKIP LOCKED
	) AS d
	WHERE t.probe IS NULL
), probed AS MATERIALIZED (
	SELECT o.id FROM targets AS t JOIN outbox AS o ON o.id = t.probe
	WHERE o.state = 'pending' AND o.due_at <= now() AND o.id <> ALL ($1::text[]::bigint[])
	FOR UPDATE OF o SKIP LOCKED
)
UPDATE outbox AS o SET attempts = o.attempts + 1, due_at = now() + t.lease
FROM targets AS t
WHERE o.id = ANY (ARRAY(SELECT id FROM due UNION ALL SELECT id FROM probed)) AND o.target = t.target
RETURNING o.id, o.target, o.attempts, floor(extract(epoch FROM now())), o.event_id,
	format('{"type":%s,"timestamp":"%s","id":%s,"data":%s}', to_json(o.event_type),
		to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), to_json(o.event_id),
		coalesce(o.payload, 'null'))
