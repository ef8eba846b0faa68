-- Stores cursors. $1 sources, $2 scopes, $3 kinds, $4 values, $5 variables (NULL if there are none), $6 the epoch in
-- which everything before them was stored, $7 this instance. Writes nothing in another epoch, in which some of that may
-- be lost. Sorts, so that two listeners do not deadlock. A cursor of kind max only grows, unless it replaces
-- one of another kind, or a number replaces a string or the reverse: then the profile or the feed has changed. The order
-- of values is that of base/sort_key.c. Returns the epoch (see epoch.sql).
WITH written AS (
	INSERT INTO :schema.cursors AS c (source, scope, kind, value, variables, instance_id)
	SELECT source, scope, kind, value, variables, $7::text
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
		AS given (source, scope, kind, value, variables)
	WHERE $6::text = (:epoch)
	ORDER BY source, scope
	ON CONFLICT (source, scope) DO UPDATE SET
		kind = excluded.kind,
		value = excluded.value,
		variables = excluded.variables,
		instance_id = excluded.instance_id,
		changed_at = pg_catalog.now()
	WHERE CASE
		WHEN excluded.kind NOT LIKE 'max%' OR excluded.kind <> c.kind THEN true
		WHEN excluded.value ~ '^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,4})?$' AND
			c.value ~ '^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,4})?$'
			THEN excluded.value::numeric > c.value::numeric
		WHEN excluded.value LIKE '"%"' AND c.value LIKE '"%"'
			THEN (excluded.value::json #>> '{}') COLLATE "C" > (c.value::json #>> '{}') COLLATE "C"
		ELSE true
	END
)
:epoch
