-- Returns, with the hazards, the epoch (NULL if it must be made) and the id of the database. Sent on each new
-- connection.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home), (SELECT id FROM :schema.wsonce_database)
