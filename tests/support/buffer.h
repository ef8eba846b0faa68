/* A growing run of bytes: appended at the end, consumed at the front. All zero is an empty one. */
#ifndef SUPPORT_BUFFER_H
#define SUPPORT_BUFFER_H

#include <stddef.h>

struct buffer {
	unsigned char *bytes; /* heap, with a NUL behind the last byte; NULL at first */
	size_t len;           /* bytes in use */
	size_t room;          /* bytes allocated */
};

/* Make room for n more bytes and return where they go; buffer_grow then says how many there are. The
 * process aborts when memory is out (this is called from threads, where a test cannot fail). */
unsigned char *buffer_reserve(struct buffer *b, size_t n);

/* Take in n bytes that were written to where buffer_reserve said. */
void buffer_grow(struct buffer *b, size_t n);

/* Append a copy of n bytes. */
void buffer_append(struct buffer *b, const void *bytes, size_t n);

/* Forget the first n bytes. */
void buffer_consume(struct buffer *b, size_t n);

/* Free the bytes; b is an empty buffer again. */
void buffer_clear(struct buffer *b);

#endif
