-- Records ended attempts. $1 ids of rows, $2 leases as lease.sql names them, $3 outcomes (delivered, retry, dead, unsent,
-- gone), $4 HTTP status, $5 answers, $6 ms until the next attempt, or -1: the row takes its old place among those that are
-- due. $7 `skip`, `most` or empty.
--
-- Each lease and each record takes the row's next number. So a failure is recorded once, and only if the row was not
-- leased again. A delivery is always recorded, even if the row was leased again or has become dead. Nothing is recorded
-- for a row that was made at another time: after a failover that lost commits, other rows get the ids of the lost ones.
--
-- A record that waited too long for a lock is repeated with $7 `skip`: then rows that others have locked are left out, and
-- their ids are returned. If that waits, too, for a row of webhook_pauses, $7 is `most`: then `gone` is left out, too.
--
-- After the outcome `gone` the webhook is paused, and the row waits as if it had not been sent.
--
-- Rows are found by id. The conditions on the state are written so that no partial index can serve them: if the
-- statistics show few pending rows, the planner would otherwise read all of those.
--
-- The commit does not wait for the disk: if a crash of the server undoes it, rows are delivered again with the same key.
WITH ended AS MATERIALIZED (
	SELECT id::bigint, pg_catalog.split_part(lease, '/', 1)::bigint AS lease,
		pg_catalog.split_part(lease, '/', 2) AS made,
		outcome, status::int, answer, wait::bigint * interval '1 millisecond' AS wait
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
		AS e (id, lease, outcome, status, answer, wait)
	WHERE pg_catalog.set_config('synchronous_commit', 'off', true) = 'off'
), free AS MATERIALIZED (
	SELECT o.id FROM ended AS e JOIN :schema.outbox AS o ON o.id = e.id
	WHERE $7::text = 'skip' OR ($7::text = 'most' AND e.outcome <> 'gone')
	FOR UPDATE OF o SKIP LOCKED
), paused AS (
	INSERT INTO :schema.webhook_pauses (target, reason)
	SELECT DISTINCT o.target, 'its receiver answered 410 (Gone)'
	FROM ended AS e JOIN :schema.outbox AS o ON o.id = e.id WHERE e.outcome = 'gone'
		AND pg_catalog.floor(extract(epoch FROM o.created_at) * 1000000)::text = e.made
		AND ($7::text = '' OR o.id IN (SELECT id FROM free))
	ON CONFLICT (target) DO NOTHING
), recorded AS (
	UPDATE :schema.outbox AS o SET
		state = CASE WHEN e.outcome IN ('delivered', 'dead') THEN e.outcome ELSE 'pending' END,
		settled_at = CASE WHEN e.outcome IN ('delivered', 'dead') THEN pg_catalog.now() END,
		payload = CASE WHEN e.outcome <> 'delivered' THEN o.payload END,
		leases = o.leases + 1,
		attempts = o.attempts - CASE WHEN e.outcome IN ('unsent', 'gone') THEN 1 ELSE 0 END,
		due_at = CASE WHEN e.wait < interval '0' THEN o.created_at ELSE pg_catalog.now() + e.wait END,
		status = CASE WHEN e.outcome IN ('unsent', 'gone') THEN o.status ELSE e.status END,
		answer = CASE WHEN e.outcome IN ('unsent', 'gone') THEN o.answer ELSE e.answer END
	FROM ended AS e
	WHERE o.id = e.id AND pg_catalog.floor(extract(epoch FROM o.created_at) * 1000000)::text = e.made AND CASE e.outcome
		WHEN 'delivered' THEN o.state || '' IN ('pending', 'dead')
		ELSE o.state || '' = 'pending' AND o.leases = e.lease
	END
		AND ($7::text = '' OR o.id IN (SELECT id FROM free))
)
SELECT id FROM ended AS e WHERE $7::text <> '' AND id NOT IN (SELECT id FROM free)
	AND EXISTS (SELECT FROM :schema.outbox AS o WHERE o.id = e.id)
