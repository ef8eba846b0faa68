-- Stores one cursor. ?1 source, ?2 scope, ?3 kind, ?4 value, ?5 variables, ?6 this instance, ?7 now. A cursor of kind
-- max only grows, unless it replaces one of another kind, or a number replaces a string or the reverse: then the
-- profile or the feed has changed. wsonce_sort_key orders numbers exactly, and strings by their bytes.
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
	ELSE wsonce_sort_key(excluded.value) > wsonce_sort_key(c.value)
END
