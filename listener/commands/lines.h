/* lines.h: the verdicts of `wsonce lines`, for other commands. */
#ifndef WSONCE_LINES_H
#define WSONCE_LINES_H

#include <stdint.h>

#include "commands/session.h"

/* Returns end - from characters, on the heap, one per minute: '=' if it is verified for all sources that have a line,
 * of this consumer unless it is "". from and end are minutes since 1970. Returns NULL after printing why. */
char *lines_verified(struct session *db, const char *consumer, int64_t from, int64_t end);

#endif
