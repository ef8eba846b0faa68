/* effects_guard.c runs before a command stores events. An event has its effects in the transaction that stores it, or
 * never, so a command without the fleet's handler would store events without effects. The table wsonce_listeners has
 * the handler and webhooks of each listener (see checkin.c). */
#include "commands/effects_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/dispatch.h"
#include "other_effects.sql.h"

/* Returns the names, which contain no blanks, separated by blanks. Free it. */
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
		      "it would store events without their effects. Give it the same --handler, --consumer and "
		      "--config",
		      session_text(rows, 0, 0), session_text(rows, 0, 1), session_text(rows, 0, 2));
	return STATUS_USAGE;
}

int effects_guard_check(struct session *s, const struct config *config)
{
	char *names = join_webhooks(&config->webhooks);
	const char *values[] = {config->consumer, config->handler, names};
	struct pg_result *rows = session_is_file(s) ? NULL : session_ask(s, SQL_OTHER_EFFECTS, 3, values);
	int status = rows                 ? judge(rows)
		     : session_is_file(s) ? STATUS_FINE
					  : STATUS_FAILED; /* events in a file have no effects */

	session_drop(rows);
	free(names);
	return status;
}
