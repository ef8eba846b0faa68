/* fleet_hour.h: the last hour of the whole fleet, minute by minute. */
#ifndef WSONCE_FLEET_HOUR_H
#define WSONCE_FLEET_HOUR_H

#include <jansson.h>

/* Of the listeners' rows of sql/queries/status.sql, whose reports have their own hours (ops/hour.h). The object is
 * docs/commands/status.md's "hour", and the caller's. */
json_t *fleet_hour_sum(const json_t *rows);

#endif
