/* check.h: do the settings go together? */
#ifndef WSONCE_CHECK_H
#define WSONCE_CHECK_H

#include <stdbool.h>

#include "config/config.h"

/* What is wrong with these settings, each of which is right, as one sentence; NULL if nothing is. is_listen: they are a
 * listener's, so that what it listens to counts, too. */
const char *check_settings(const struct config *c, bool is_listen);

#endif
