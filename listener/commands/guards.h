/* guards.h: checks that commands make on the fleet's listeners before they store or delete events. */
#ifndef WSONCE_GUARDS_H
#define WSONCE_GUARDS_H

#include <stdint.h>

#include "commands/session.h"
#include "config/config.h"

/* Compares the command's --handler and webhooks with those of the listeners of the same --consumer that ran within the
 * last hour. Returns STATUS_FINE if they are the same or none ran; or, after printing why, STATUS_USAGE if they differ
 * and STATUS_FAILED if the database did not answer. */
int effects_guard_check(struct session *s, const struct config *config);

/* The words of a refusal: "option is refused: ... . harm run all listeners with ...". */
struct retention_guard_deletion {
	const char *option;
	const char *age; /* the age that must be more than a day */
	const char *harm;
};

/* Checks if the listeners of the last hour, and config if it has --max-age, refuse events of this age. If so, writes
 * the age into the database: once the caller's transaction is committed, no listener without such a guard starts.
 * Returns STATUS_FINE; or after printing why STATUS_USAGE if they do not, STATUS_FAILED if the database did not answer.
 */
int retention_guard_check(struct session *s, const struct config *config,
			  const struct retention_guard_deletion *deletion, int64_t age_s);

#endif
