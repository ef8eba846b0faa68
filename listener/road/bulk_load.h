/* bulk_load.h: rows in the binary form of COPY. */
#ifndef WSONCE_BULK_LOAD_H
#define WSONCE_BULK_LOAD_H

#include <stdbool.h>

#include "postgres/array.h"
#include "road/event.h"

/* What the rows of a stream share. */
struct copy_common {
	const char *instance; /* that stores them */
	int64_t clock_us;     /* what the loop clock lacks to microseconds since 1970 */
};

/* Puts the stream for these events, but those that are passed over, into a's bytes: the columns of
 * sql/queries/copy.sql. */
void copy_events(struct array *a, struct event *const *evs, const bool *is_passed, size_t n,
		 const struct copy_common *common);

#endif
