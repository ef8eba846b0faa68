-- The batch as a stream, at little more than half the cost of the INSERT; but one row that is there
-- already refuses them all. Both statements are one transaction; the second one is that of epoch.sql.
COPY :schema.events (event_id, event_type, payload) FROM STDIN (FORMAT binary);
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch
