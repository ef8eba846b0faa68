/* batch.h: the events that one statement stores, and their order. No I/O. */
#ifndef WSONCE_BATCH_H
#define WSONCE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "event/event.h"

struct batch {
	struct event **events; /* borrowed */
	size_t count;
	size_t bytes; /* bytes of the messages */
	size_t max_count;
	size_t max_bytes;
};

/* A batch for at most max_count events and max_bytes. A single larger event is a batch by itself. */
void batch_init(struct batch *b, size_t max_count, size_t max_bytes);
void batch_free(struct batch *b);
void batch_clear(struct batch *b);

/* Returns false if ev does not fit. */
bool batch_add(struct batch *b, struct event *ev);

/* Sorts the events of the range [from, to) by id, bytewise. */
void batch_sort(const struct batch *b, size_t from, size_t to);

/* Returns the index of the event with this id in [from, to), or -1. Starts at guess, because results come in the order
 * of the rows. */
long batch_find(const struct batch *b, size_t from, size_t to, size_t guess, const char *id, size_t len);

#endif
