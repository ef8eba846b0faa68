-- Stores one cursor. ?1 source, ?2 scope, ?3 kind, ?4 value, ?5 variables, ?6 this instance, ?7 now. A cursor of kind
-- max only grows, unless it replaces one of another kind, or a number replaces a string or the reverse: then the
-- profile or the feed has changed. Numbers without a sign are compared as text, since SQLite's integers end at 2^63.
INSERT INTO cursors AS c (source, scope, kind, value, variables, instance_id, changed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (source, scope) DO UPDATE SET
	kind = excluded.kind,
	value = excluded.value,
	variables = excluded.variables,
	instance_id = excluded.instance_id,
	changed_at = excluded.changed_at
WHERE CASE
	WHEN excluded.kind NOT GLOB 'max*' OR excluded.kind <> c.kind OR (excluded.value GLOB '[-0-9]*') <> (c.value GLOB '[-0-9]*') THEN true
	WHEN c.value NOT GLOB '[-0-9]*' THEN excluded.value > c.value
	WHEN c.value LIKE '-%' OR excluded.value LIKE '-%'
		THEN CAST(excluded.value AS INTEGER) > CAST(c.value AS INTEGER)
	ELSE (length(excluded.value), excluded.value) > (length(c.value), c.value)
END
