/* lines.h: what `wsonce lines` knows, for other commands. */
#ifndef WSONCE_LINES_H
#define WSONCE_LINES_H

#include <stdint.h>

#include "commands/session.h"

/* Returns end - from characters, on the heap: '=' for each of these minutes since 1970 that is verified for all sources
 * of which a line has told. Returns NULL after printing why. */
char *lines_verified(struct session *db, int64_t from, int64_t end);

#endif
