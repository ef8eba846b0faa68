/* retention_guard.h: may rows be deleted by which events are known? Only if no late copy can come. */
#ifndef WSONCE_RETENTION_GUARD_H
#define WSONCE_RETENTION_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "commands/session.h"

enum retention_guard_result {
	RETENTION_GUARD_HOLDS,
	RETENTION_GUARD_REFUSES, /* one line on standard error has said why */
	RETENTION_GUARD_FAILED,  /* so it has here: the database did not answer */
};

/* What is to be deleted, as a refusal puts it: "option is refused: ... . harm run all listeners with ...". */
struct retention_guard_deletion {
	const char *option;
	const char *age; /* what is to be old enough, in a refusal of less than a day */
	const char *harm;
};

/* Whether all who store events refuse those of this age: the listeners of the last hour, and the
 * command itself if config says so. With is_to_stay the database remembers the age, and listeners
 * without such a guard do not start any more. */
enum retention_guard_result retention_guard_check(struct session *s, const struct config *config,
						  const struct retention_guard_deletion *deletion, int64_t age_s,
						  bool is_to_stay);

#endif
