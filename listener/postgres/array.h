/* array.h: writes one-dimensional Postgres arrays in the binary form of the protocol. */
#ifndef WSONCE_ARRAY_H
#define WSONCE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* OIDs of array types from Postgres's catalogue (pg_type.dat). They never change. */
enum array_type { ARRAY_BYTEA = 1001, ARRAY_TEXT = 1009, ARRAY_TIME = 1185, ARRAY_JSONB = 3807 };

struct array {
	char *bytes; /* grows as needed and is reused for the next array */
	size_t len;
	size_t size;
	enum array_type type;
};

/* Starts an array of exactly count elements. The calls below add them one by one. */
void array_start(struct array *a, enum array_type type, size_t count);
void array_add(struct array *a, const char *bytes, size_t len);
/* Like array_add, but replaces invalid UTF-8, which Postgres would refuse, with question marks; and, if is_ascii,
 * everything that is not ASCII. If text is NULL, adds a null. */
void array_add_text(struct array *a, const char *text, size_t len, bool is_ascii);
/* The same for a text that ends with a NUL. */
void array_add_string(struct array *a, const char *text, bool is_ascii);
/* Like array_add, but replaces everything that is not ASCII: for text that must be valid in any encoding. */
void array_add_ascii(struct array *a, const char *text, size_t len);
/* Adds a timestamptz. us: microseconds since 1970. */
void array_add_time(struct array *a, int64_t us);
void array_add_null(struct array *a);
/* Makes room for more bytes after the first len and returns a pointer to it. */
char *array_reserve(struct array *a, size_t more);
void array_free(struct array *a);

#endif
