/* effects_guard.c owns the question before a command stores events: an event has its effects in the transaction that
 * stores it, or never. A command without the fleet's handler would store it without; what listeners say of
 * themselves is in wsonce_listeners (see checkin.c). */
#include "commands/effects_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/dispatch.h"

/* A listener tells of itself once a minute, and takes that back when it leaves. One that was killed does not: it
 * counts until others have been seen for some minutes since. */
static const char sql_other[] =
	"SELECT listener, coalesce('--handler ' || handler, 'no handler'),"
	" CASE WHEN targets = '{}' THEN 'no webhooks' ELSE 'the webhooks ' || pg_catalog.array_to_string(targets, ', "
	"') END"
	" FROM (SELECT *, pg_catalog.max(seen_at) OVER () AS latest FROM :schema.wsonce_listeners"
	"  WHERE consumer = $1::text AND seen_at > now() - interval '1 hour') AS recent"
	" WHERE seen_at > latest - interval '3 minutes' AND (handler IS DISTINCT FROM $2::text"
	"  OR targets <> ARRAY(SELECT t FROM pg_catalog.unnest(pg_catalog.string_to_array($3::text, ' ')) AS t ORDER "
	"BY t)::varchar[])"
	" ORDER BY seen_at DESC, listener LIMIT 1";

/* The names, which have no blanks, with a blank between; on the heap. */
static char *join_webhooks(const struct webhooks *w)
{
	size_t size = 1, used = 0;
	char *names;

	for (size_t i = 0; i < w->count; i++)
		size += strlen(w->items[i].name) + 1;
	names = memory_calloc(1, size);
	for (size_t i = 0; i < w->count; i++)
		used += (size_t)sprintf(names + used, "%s%s", i ? " " : "", w->items[i].name);
	return names;
}

static int judge(const struct pg_result *rows)
{
	if (!session_count(rows))
		return STATUS_FINE;
	dispatch_fail("the listener %s runs, or ran within the last hour, with %s and %s, and this command does not: "
		      "events would be stored without what follows from them. Give it the same --handler, --consumer "
		      "and --config",
		      session_text(rows, 0, 0), session_text(rows, 0, 1), session_text(rows, 0, 2));
	return STATUS_USAGE;
}

static int check(struct session *s, const struct config *config)
{
	char *names = join_webhooks(&config->webhooks);
	const char *values[] = {config->consumer, config->handler, names};
	struct pg_result *rows = session_ask(s, sql_other, 3, values);
	int status = rows ? judge(rows) : STATUS_FAILED;

	session_drop(rows);
	free(names);
	return status;
}

int effects_guard_check(struct session *s, const struct config *config)
{
	if (session_is_file(s))
		return STATUS_FINE; /* nothing follows from an event there */
	return check(s, config);
}
