-- The cursors of the source ?1: source, scope, value, variables.
SELECT source, scope, value, variables FROM cursors WHERE source = ?1 ORDER BY scope
