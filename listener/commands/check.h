/* check.h: whether a listener with these settings could work. */
#ifndef WSONCE_COMMANDS_CHECK_H
#define WSONCE_COMMANDS_CHECK_H

#include "config/config.h"

/* Prints a line for each thing that is looked at. Returns the exit status: 1 if something is wrong. */
int check_all(const struct config *config);

#endif
