-- Returns the cursors of source ?1: source, scope, value, variables, and when it changed, in seconds since 1970.
SELECT source, scope, value, variables, unixepoch(changed_at) FROM cursors WHERE source = ?1 ORDER BY scope
