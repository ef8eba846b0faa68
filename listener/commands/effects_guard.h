/* effects_guard.h: whether a command that stores events does with them what their fleet does. */
#ifndef WSONCE_EFFECTS_GUARD_H
#define WSONCE_EFFECTS_GUARD_H

#include "config/config.h"
#include "commands/session.h"

/* Compares the command's --handler and webhooks with those of the listeners of the same --consumer that ran
 * within the last hour. Returns STATUS_FINE, also if none did; STATUS_USAGE if they differ, or STATUS_FAILED:
 * one line on standard error has said why. */
int effects_guard_check(struct session *s, const struct config *config);

#endif
