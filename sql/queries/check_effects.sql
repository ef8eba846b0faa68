-- Checks the handler of a fleet on each new connection. $1 is the handler as given, "" if there is none. Returns = and
-- the handler's quoted name, or what is wrong with it.
--
-- The CTE is materialized because the planner would otherwise always look up the function, to make estimates.
WITH wanted AS MATERIALIZED (
	SELECT may_use, CASE WHEN may_use THEN pg_catalog.to_regprocedure($1::text || '(text, text, jsonb)') END AS f
	FROM (SELECT (
		SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_namespace
		WHERE nspname = CASE WHEN $1::text <> '' THEN (pg_catalog.parse_ident($1::text))[1] END
	)) AS s (may_use)
)
SELECT CASE
	WHEN $1::text = '' THEN '='
	WHEN p.oid IS NOT NULL AND p.prokind <> 'f' THEN 'it is no ordinary function'
	WHEN p.oid IS NOT NULL AND (p.proretset OR p.prorettype <> 'void'::regtype)
		THEN 'it returns ' || pg_catalog.pg_get_function_result(p.oid)
	WHEN p.oid IS NOT NULL AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE') THEN
		'this user may not execute it'
	WHEN p.oid IS NOT NULL THEN '=' || pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(p.proname)
	WHEN NOT may_use THEN 'this user may not use its schema'
	WHEN others IS NOT NULL THEN 'it takes ' || others
	ELSE 'there is no such function'
END
FROM wanted
LEFT JOIN pg_proc AS p ON p.oid = f
LEFT JOIN pg_namespace AS n ON n.oid = p.pronamespace
CROSS JOIN (
	SELECT pg_catalog.string_agg('(' || pg_catalog.pg_get_function_arguments(o.oid) || ')', ' or ')
	FROM pg_proc AS o JOIN pg_namespace AS m ON m.oid = o.pronamespace
	WHERE ARRAY[m.nspname, o.proname]::text[] = CASE WHEN $1::text <> '' THEN pg_catalog.parse_ident($1::text) END
) AS same_name (others)
