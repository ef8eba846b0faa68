/* A growing buffer: bytes are appended at the end and consumed at the front. Initialize with zeros. */
#ifndef SUPPORT_BUFFER_H
#define SUPPORT_BUFFER_H

#include <stddef.h>

struct buffer {
	unsigned char *bytes; /* heap, followed by a NUL; NULL at first */
	size_t len;           /* bytes in use */
	size_t room;          /* bytes allocated */
};

/* Makes room for n more bytes and returns where they go; buffer_grow then says how many were written. Aborts if out of
 * memory, because it is called from threads, where a test cannot fail. */
unsigned char *buffer_reserve(struct buffer *b, size_t n);

/* Adds n bytes that were written to the result of buffer_reserve. */
void buffer_grow(struct buffer *b, size_t n);

/* Append a copy of n bytes. */
void buffer_append(struct buffer *b, const void *bytes, size_t n);

/* Removes the first n bytes. */
void buffer_consume(struct buffer *b, size_t n);

/* Free the bytes; b is an empty buffer again. */
void buffer_clear(struct buffer *b);

#endif
