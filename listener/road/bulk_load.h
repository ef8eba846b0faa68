/* bulk_load.h: rows in the binary form of COPY. */
#ifndef WSONCE_BULK_LOAD_H
#define WSONCE_BULK_LOAD_H

#include <stdbool.h>

#include "postgres/array.h"
#include "road/event.h"

/* A stream for these events, but those that are passed over, which are the caller's until it is over. */
struct copy_stream {
	struct event *const *evs;
	const bool *is_passed;
	size_t count;
	const char *instance; /* that stores them */
	size_t at;            /* rows that were put; count + 1: the end, too */
};

/* Puts the next piece of the stream, the columns of sql/queries/copy.sql, into a's bytes: whole rows, until there are
 * so many bytes. Returns false, and there are none, when the end was put before. */
bool copy_next(struct copy_stream *c, struct array *a, size_t enough);

#endif
