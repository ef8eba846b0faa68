/* bulk_load.h: rows in the binary form of COPY. */
#ifndef WSONCE_BULK_LOAD_H
#define WSONCE_BULK_LOAD_H

#include <stdbool.h>

#include "postgres/array.h"
#include "road/event.h"

/* Puts the stream for these events, but those that are passed over, into a's bytes; its len is 0 if memory
 * ran out. */
void copy_events(struct array *a, struct event *const *evs, const bool *is_passed, size_t n);

#endif
