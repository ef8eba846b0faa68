/* limit.h: how many rows one statement may have, learned from how long statements took. No I/O. */
#ifndef WSONCE_LIMIT_H
#define WSONCE_LIMIT_H

#include <stddef.h>
#include <stdint.h>

struct timed {
	size_t rows;
	int64_t ms;
};

struct limit {
	size_t rows;        /* limit for the next statement, at least 1 */
	size_t most;        /* maximum of rows */
	int64_t target_ms;  /* how long a statement of slow rows should take */
	size_t too_many;    /* the smallest number of rows that took too long; SIZE_MAX if none did */
	unsigned int fit;   /* full statements to go before too_many is tried again */
	struct timed slow;  /* the last slow statement of another size, with which others are compared; rows 0: none */
	unsigned int alike; /* statements of about its size to go before another size is tried */
};

/* Starts with `first` rows. The limit never exceeds `most`. */
void limit_init(struct limit *l, size_t first, size_t most, int64_t timeout_ms);

/* A statement of this many rows took too long: allow half as many. A single row that takes too long says nothing about
 * larger statements. */
void limit_lower(struct limit *l, size_t rows);

/* A statement of this many rows, some of them new and stored, took took_ms. */
void limit_raise(struct limit *l, size_t rows, size_t stored, int64_t took_ms);

#endif
