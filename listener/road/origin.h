/* origin.h: the columns "source" and "event_time" of a row (sql/migrations/010_origin.sql). */
#ifndef WSONCE_ORIGIN_H
#define WSONCE_ORIGIN_H

#include <stdint.h>

#include "postgres/array.h"
#include "road/event.h"

/* Adds the name of ev's source to a: that of its profile, or of its producer's token or certificate, or ev->from; NULL
 * if it has none of these. */
void origin_add_source(struct array *a, const struct event *ev);

/* Adds ev's own time, or NULL. */
void origin_add_time(struct array *a, const struct event *ev);

#endif
