-- Returns the targets to which this role has retried deliveries since row $1 of delivery_actions, and to which no
-- running listener delivers, or NULL. Listeners check in once a minute. Their consumer does not matter: any listener
-- delivers to the targets among its webhooks.
SELECT pg_catalog.string_agg(target, ', ' ORDER BY target)
FROM (SELECT DISTINCT target FROM :schema.delivery_actions
	WHERE id >= $1::bigint AND db_user = session_user AND action = 'retry') AS retried
WHERE NOT EXISTS (SELECT FROM :schema.wsonce_listeners
	WHERE target = ANY(targets) AND seen_at > pg_catalog.now() - interval '3 minutes')
