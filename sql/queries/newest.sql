-- Returns recently stored events, the newest first: at most $2 events with an id above $1. Returns the epoch (see
-- epoch.sql), the highest id, and the event ids, in that order. If commits wait for a standby, so does this: see
-- find_present.sql. The ids are not in a CTE, since that would double the cost.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch UNION ALL SELECT newest.id::text || (
		SELECT CASE WHEN pg_catalog.current_setting('synchronous_standby_names') = '' THEN ''
			ELSE pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'wsonce', ''::text)::text, 0) END
	)
FROM (SELECT id FROM :schema.events WHERE id > $1::text::bigint ORDER BY id DESC LIMIT 1) AS newest
UNION ALL SELECT event_id FROM (
	SELECT event_id FROM :schema.events WHERE id > $1::text::bigint ORDER BY id DESC LIMIT $2::text::bigint
) AS ids
