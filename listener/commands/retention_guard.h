/* retention_guard.h: may rows go by which events are known? Only if no copy can come so late. */
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

/* Do the listeners of the last hour, and config if it has --max-age, refuse events of this age? Returns STATUS_FINE; or
 * after saying why STATUS_USAGE if they do not, STATUS_FAILED if the database did not answer. With is_to_stay the
 * database remembers the age, and no listener without such a guard starts from then on. */
int retention_guard_check(struct session *s, const struct config *config,
			  const struct retention_guard_deletion *deletion, int64_t age_s, bool is_to_stay);

#endif
