/* effects_guard.h: keeps commands from storing events without the effects that the fleet's listeners have. */
#ifndef WSONCE_EFFECTS_GUARD_H
#define WSONCE_EFFECTS_GUARD_H

#include "config/config.h"
#include "commands/session.h"

/* Compares the command's --handler and webhooks with those of the listeners of the same --consumer that ran within the
 * last hour. Returns STATUS_FINE if they are the same or none ran; or, after printing why, STATUS_USAGE if they differ
 * and STATUS_FAILED if the database did not answer. */
int effects_guard_check(struct session *s, const struct config *config);

#endif
