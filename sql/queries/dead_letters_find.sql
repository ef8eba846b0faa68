-- Finds the dead letters of consumer $6 that were last seen at or after $1 and before $2 (microseconds since 1970, 0: no
-- bound), with $3 in the reason (ignoring case), in state $4 (open, resolved or all), among the ids $5 (NULL: any), that
-- may have type $7 (NULL: any), with an id above $9 and not above $10. If no profile has read a letter, its type is in
-- its message, where a backslash may begin an escape. The condition of state all is always true, and lets the planner use
-- the indexes of open and resolved letters. Returns id, event_type and raw; the program adds the order and the limit $8.
SELECT id, event_type, raw FROM :schema.dead_letters
WHERE ($1::bigint = 0 OR last_seen >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond')
	AND ($2::bigint = 0 OR last_seen < timestamptz 'epoch' + $2::bigint * interval '1 microsecond')
	AND ($3::text = '' OR pg_catalog.strpos(pg_catalog.lower(reason), pg_catalog.lower($3::text)) > 0)
	AND CASE $4::text WHEN 'all' THEN (resolved_at IS NULL OR last_seen > resolved_at OR last_seen <= resolved_at)
		WHEN 'open' THEN (resolved_at IS NULL OR last_seen > resolved_at)
		ELSE NOT (resolved_at IS NULL OR last_seen > resolved_at) END
	AND ($5::bigint[] IS NULL OR id = ANY($5::bigint[])) AND consumer = $6::text
	AND ($7::text IS NULL OR CASE WHEN event_type IS NULL
		THEN position(pg_catalog.convert_to($7::text, 'UTF8') IN raw) > 0
			OR position(pg_catalog.decode('5c', 'hex') IN raw) > 0
		ELSE event_type = $7::text END)
	AND id > $9::bigint AND id <= $10::bigint
