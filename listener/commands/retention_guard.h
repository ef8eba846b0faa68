/* retention_guard.h: may rows by which events are known be deleted? Only if no later copy of them can come. */
#ifndef WSONCE_RETENTION_GUARD_H
#define WSONCE_RETENTION_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/session.h"
#include "config/config.h"

/* What a refusal says: "option is refused: ... . harm run all listeners with ...". */
struct retention_guard_deletion {
	const char *option;
	const char *age; /* what must be more than a day */
	const char *harm;
};

/* Do the listeners of the last hour, and config if it has --max-age, refuse events of this age? If so, writes the age
 * into the database: once the caller's transaction is committed, no listener without such a guard starts. Returns
 * STATUS_FINE; or after printing why STATUS_USAGE if they do not, STATUS_FAILED if the database did not answer. */
int retention_guard_check(struct session *s, const struct config *config,
			  const struct retention_guard_deletion *deletion, int64_t age_s);

#endif
