/* limit.h: how many rows one statement may have, learned from statements that took too long. No I/O. */
#ifndef WSONCE_LIMIT_H
#define WSONCE_LIMIT_H

#include <stddef.h>

struct limit {
	size_t rows;      /* limit for the next statement, at least 1 */
	size_t most;      /* maximum of rows */
	size_t too_many;  /* the smallest number of rows that took too long; SIZE_MAX if none did */
	unsigned int fit; /* full statements left before too_many is tried again */
};

void limit_init(struct limit *l, size_t most);

/* A statement of this many rows took too long: allow half as many. A single row that takes too long says nothing about
 * larger statements. */
void limit_lower(struct limit *l, size_t rows);

/* A statement of this many rows finished in time. */
void limit_raise(struct limit *l, size_t rows);

#endif
