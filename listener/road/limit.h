/* limit.h: how many rows one statement may have, learnt from those that took too long. No I/O. */
#ifndef WSONCE_LIMIT_H
#define WSONCE_LIMIT_H

#include <stddef.h>

struct limit {
	size_t rows;      /* that the next statement may have, at least 1 */
	size_t most;      /* never more than these */
	size_t too_many;  /* the fewest that took too long; SIZE_MAX if none did */
	unsigned int fit; /* statements of as many rows as may be that are left to do before too_many is tried again */
};

void limit_init(struct limit *l, size_t most);

/* A statement of this many rows took too long: half of them may be sent. If it was a single one, this is the row's
 * doing, and says nothing about more. */
void limit_lower(struct limit *l, size_t rows);

/* A statement of this many rows was done in time. */
void limit_raise(struct limit *l, size_t rows);

#endif
