/* bulk_load.h: rows in COPY's binary format. */
#ifndef WSONCE_BULK_LOAD_H
#define WSONCE_BULK_LOAD_H

#include <stdbool.h>

#include "postgres/array.h"
#include "event/event.h"

/* Writes the rows of evs, except those with is_passed set. The caller owns all arrays and keeps them until the end. */
struct copy_stream {
	struct event *const *evs;
	const bool *is_passed;
	size_t count;
	const char *instance; /* column "instance" of each row */
	size_t at;            /* next event; count + 1 once the trailer is written */
};

/* Replaces a's bytes by the next piece of the stream: whole rows with the columns of sql/queries/copy.sql, until there
 * are at least `enough` bytes. Returns false, with no bytes, after the end of the stream. */
bool copy_next(struct copy_stream *c, struct array *a, size_t enough);

/* Adds the columns "source" and "event_time" of ev's row (sql/migrations/010_origin.sql): the name of its profile, or
 * of its producer's token or certificate, or ev->from; and its own time. NULL where there is none. */
void bulk_add_source(struct array *a, const struct event *ev);
void bulk_add_time(struct array *a, const struct event *ev);

#endif
