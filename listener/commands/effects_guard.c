/* effects_guard.c runs before a command stores events. An event has its effects in the transaction that stores it, or
 * never, so a command without the fleet's handler would store events without effects. The table wsonce_listeners has
 * the handler and webhooks of each listener (see checkin.c). */
#include "commands/effects_guard.h"

#include <string.h>

#include "base/bytes.h"
#include "commands/dispatch.h"
#include "other_effects.sql.h"

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
	struct bytes names = {NULL, 0, 0}; /* of webhooks, each with a blank behind it */
	struct pg_result *rows;
	int status;

	if (session_is_file(s))
		return STATUS_FINE; /* events in a file have no effects */
	for (size_t i = 0; i < config->webhooks.count; i++) {
		const char *name = config->webhooks.items[i].name;

		bytes_add(&names, name, strlen(name));
		bytes_add_byte(&names, ' ');
	}
	rows = session_query(s, SQL_OTHER_EFFECTS, NULL, "sss", config->consumer, config->handler, bytes_text(&names));
	status = rows ? judge(rows) : STATUS_FAILED;
	session_drop(rows);
	bytes_free(&names);
	return status;
}
