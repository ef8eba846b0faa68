-- Returns which of the targets to which this role has retried deliveries since row $1 of delivery_actions have no running
-- listener that delivers to them, and which are paused; NULL: none. Listeners check in once a minute. Their consumer does
-- not matter: any listener delivers to the targets among its webhooks.
SELECT pg_catalog.string_agg(target, ', ' ORDER BY target) FILTER (WHERE NOT EXISTS (SELECT FROM :schema.wsonce_listeners
		WHERE target = ANY(targets) AND seen_at > pg_catalog.now() - interval '3 minutes')),
	pg_catalog.string_agg(target, ', ' ORDER BY target) FILTER (WHERE EXISTS (SELECT FROM :schema.webhook_pauses AS p
		WHERE p.target = retried.target))
FROM (SELECT DISTINCT target FROM :schema.delivery_actions
	WHERE id >= $1::bigint AND db_user = session_user AND action = 'retry') AS retried
