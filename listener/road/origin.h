/* origin.h: what a row says of where its event came from (sql/migrations/010_origin.sql). No clock is read here. */
#ifndef WSONCE_ORIGIN_H
#define WSONCE_ORIGIN_H

#include <stdint.h>

#include "postgres/array.h"
#include "road/event.h"

/* Adds the name of ev's source to a, an array or stream of text: of a profile's event, the profile's; else of the
 * producer's token or certificate, if it has one; else what ev->from says. NULL if there is none of these. */
void origin_add_source(struct array *a, const struct event *ev);

/* Adds ev's own time, NULL if it has none. */
void origin_add_time(struct array *a, const struct event *ev);

#endif
