-- Asked on each new connection, with the hazards: the epoch, NULL if it is to be made; and the id of the database.
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home), (SELECT id FROM :schema.wsonce_database)
