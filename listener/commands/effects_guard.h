/* effects_guard.h: does a command that stores events have the same effects as the fleet? */
#ifndef WSONCE_EFFECTS_GUARD_H
#define WSONCE_EFFECTS_GUARD_H

#include "config/config.h"
#include "commands/session.h"

/* Compares the command's --handler and webhooks with those of the listeners of the same --consumer that ran within the
 * last hour. Returns STATUS_FINE, also if none ran; or after saying why STATUS_USAGE if they differ, STATUS_FAILED if
 * the database did not answer. */
int effects_guard_check(struct session *s, const struct config *config);

#endif
