/* check.h: tests what a listener needs. */
#ifndef WSONCE_COMMANDS_CHECK_H
#define WSONCE_COMMANDS_CHECK_H

#include "config/config.h"

/* Tests whether a listener with these settings could work, and prints a line for each finding. Returns the exit status:
 * 1 if something is wrong. */
int check_all(const struct config *config);

#endif
