-- Stores cursors. $1 sources, $2 scopes, $3 kinds, $4 values, $5 variables (NULL where there are none), $6 the epoch in
-- which all before them was stored, $7 this instance. Nothing is written in another epoch, which may have forgotten some
-- of it. Sorted, so that two listeners do not wait for each other. One of kind max only grows, unless it takes the place
-- of another kind, or a number that of a string or the other way round: then the profile or the feed has changed. Tells
-- the epoch (see epoch.sql).
WITH written AS (
	INSERT INTO :schema.cursors AS c (source, scope, kind, value, variables, instance_id)
	SELECT source, scope, kind, value, variables, $7::text
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
		AS given (source, scope, kind, value, variables)
	WHERE $6::text = (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home)
	ORDER BY source, scope
	ON CONFLICT (source, scope) DO UPDATE SET
		kind = excluded.kind,
		value = excluded.value,
		variables = excluded.variables,
		instance_id = excluded.instance_id,
		changed_at = now()
	WHERE CASE
		WHEN excluded.kind NOT LIKE 'max%' OR excluded.kind <> c.kind OR (excluded.value ~ '^-?[0-9]+$') <> (c.value ~ '^-?[0-9]+$') THEN true
		WHEN c.value ~ '^-?[0-9]+$' THEN excluded.value::numeric > c.value::numeric
		ELSE excluded.value > c.value
	END
)
SELECT (SELECT epoch FROM :schema.wsonce_epoch WHERE xmin = home) AS wsonce_epoch
