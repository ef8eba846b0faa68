-- Returns a sentence for the operator that names the listener of consumer $1 last seen with another handler than $2 or
-- other webhooks than $3 (names with a blank after each). If $1 is empty, and only listeners of consumers were seen, it
-- names one that has effects. A listener checks in once a minute, and deletes its row when it leaves. One that was killed
-- does not, so it counts until others have checked in for three minutes. One whose handler is wrong stores nothing, so it
-- does not count; its trouble is the sentence of listener/store/effects.c.
SELECT pg_catalog.format('the listener %s, which runs or ran within the last hour, has %s%s and %s. This command has others, and '
	'would store events without their effects: give it the same --handler, --consumer and --config', listener,
	'--consumer ' || nullif(consumer, '') || ', ', coalesce('--handler ' || handler, 'no handler'),
	CASE WHEN targets = '{}' THEN 'no webhooks'
		ELSE 'the webhooks ' || pg_catalog.array_to_string(targets, ', ') END)
FROM (SELECT *, pg_catalog.max(seen_at) OVER same AS latest, pg_catalog.bool_or(consumer = $1::text) OVER () AS has_own
	FROM :schema.wsonce_listeners
	WHERE $1::text IN (consumer, '') AND seen_at > pg_catalog.now() - interval '1 hour'
		AND coalesce(report->>'trouble', '') NOT LIKE '--handler %'
	WINDOW same AS (PARTITION BY consumer)) AS recent
WHERE seen_at > latest - interval '3 minutes' AND CASE
	WHEN consumer = $1::text THEN handler IS DISTINCT FROM $2::text OR targets <> ARRAY(
		SELECT t FROM pg_catalog.unnest(pg_catalog.string_to_array(pg_catalog.rtrim($3::text), ' ')) AS t ORDER BY t)::varchar[]
	ELSE NOT has_own AND (handler IS NOT NULL OR targets <> '{}')
END
ORDER BY seen_at DESC, listener LIMIT 1
