/* array.h: a one-dimensional Postgres array in the binary form of its protocol. */
#ifndef WSONCE_ARRAY_H
#define WSONCE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* OIDs of the array types, from Postgres's catalogue (pg_type.dat); they never change. */
enum array_type { ARRAY_BYTEA = 1001, ARRAY_TEXT = 1009, ARRAY_TIME = 1185, ARRAY_JSONB = 3807 };

struct array {
	char *bytes; /* grows as needed, kept for the next array */
	size_t len;
	size_t size;
	enum array_type type;
};

/* Starts an array of exactly count elements, which the calls below add one by one. */
void array_start(struct array *a, enum array_type type, size_t count);
void array_add(struct array *a, const char *bytes, size_t len);
/* As array_add, for text that may not be valid UTF-8, which Postgres would refuse: what is not is
 * replaced by question marks; with is_ascii, so is everything beyond ASCII. */
void array_add_text(struct array *a, const char *text, size_t len, bool is_ascii);
/* For what is only told, and must not fail a row in a database of any encoding: what is beyond ASCII is replaced. */
void array_add_ascii(struct array *a, const char *text, size_t len);
/* A timestamptz, in microseconds since 1970. */
void array_add_time(struct array *a, int64_t us);
void array_add_null(struct array *a);
/* Room for more bytes behind the first len, which stay. */
char *array_reserve(struct array *a, size_t more);
void array_free(struct array *a);

#endif
