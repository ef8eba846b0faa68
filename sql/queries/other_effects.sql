-- Returns a sentence for the operator that names the listener of consumer $1 last seen with another handler than $2 or
-- other webhooks than $3 (names with a blank after each). A listener checks in once a minute, and deletes its row when it
-- leaves. One that was killed does not, so it counts until others have checked in for three minutes. One whose handler is
-- wrong stores nothing, so it does not count; its trouble is the sentence of listener/store/effects.c.
SELECT pg_catalog.format('the listener %s, which runs or ran within the last hour, has %s and %s. This command has others, and '
	'would store events without their effects: give it the same --handler, --consumer and --config', listener,
	coalesce('--handler ' || handler, 'no handler'),
	CASE WHEN targets = '{}' THEN 'no webhooks'
		ELSE 'the webhooks ' || pg_catalog.array_to_string(targets, ', ') END)
FROM (SELECT *, pg_catalog.max(seen_at) OVER () AS latest FROM :schema.wsonce_listeners
	WHERE consumer = $1::text AND seen_at > pg_catalog.now() - interval '1 hour'
		AND coalesce(report->>'trouble', '') NOT LIKE '--handler %') AS recent
WHERE seen_at > latest - interval '3 minutes' AND (handler IS DISTINCT FROM $2::text OR targets <> ARRAY(
	SELECT t FROM pg_catalog.unnest(pg_catalog.string_to_array(pg_catalog.rtrim($3::text), ' ')) AS t ORDER BY t)::varchar[])
ORDER BY seen_at DESC, listener LIMIT 1
