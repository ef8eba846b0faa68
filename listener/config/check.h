/* check.h: checks that settings fit together. */
#ifndef WSONCE_CHECK_H
#define WSONCE_CHECK_H

#include <stdbool.h>

#include "config/config.h"

/* Returns why the settings, each valid by itself, do not fit together, or NULL. is_listen: they are a listener's. */
const char *check_settings(const struct config *c, bool is_listen);

#endif
