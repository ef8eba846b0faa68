/* bytes.h: a byte string that grows at its end. */
#ifndef WSONCE_BYTES_H
#define WSONCE_BYTES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/slice.h"

/* All zeros is an empty string. Setting len to 0 empties it and keeps its memory; bytes_free frees that. */
struct bytes {
	char *at;
	size_t len;
	size_t size;
};

/* Makes room for len more bytes and a NUL, and returns where they go. */
static inline char *bytes_reserve(struct bytes *b, size_t len)
{
	if (b->size - b->len < len + 1) {
		b->size = 2 * (b->len + len) + 64;
		b->at = memory_realloc(b->at, b->size);
	}
	return b->at + b->len;
}

static inline void bytes_add(struct bytes *b, const void *bytes, size_t len)
{
	char *at = bytes_reserve(b, len);

	if (len)
		memcpy(at, bytes, len);
	b->len += len;
}

static inline void bytes_add_text(struct bytes *b, const char *text)
{
	bytes_add(b, text, strlen(text));
}

static inline void bytes_add_byte(struct bytes *b, char byte)
{
	*bytes_reserve(b, 1) = byte;
	b->len++;
}

/* Returns the string with a NUL after it, which len does not count. It stays valid until the next change. */
static inline const char *bytes_text(struct bytes *b)
{
	*bytes_reserve(b, 0) = '\0';
	return b->at;
}

static inline struct slice bytes_slice(struct bytes *b)
{
	return (struct slice){bytes_text(b), b->len};
}

static inline ssize_t bytes_write(void *cookie, const char *text, size_t len)
{
	bytes_add(cookie, text, len);
	return (ssize_t)len;
}

/* A local variable that is freed at the end of its block. */
#define AUTO_BYTES __attribute__((cleanup(bytes_free))) struct bytes

/* Returns a stream that appends to b. When memory runs out, open_memstream() loses text; this ends the process. */
static inline FILE *bytes_stream(struct bytes *b)
{
	return memory_given(fopencookie(b, "w", (cookie_io_functions_t){.write = bytes_write}), "libc");
}

static inline void bytes_free(struct bytes *b)
{
	free(b->at);
	*b = (struct bytes){NULL, 0, 0};
}

#endif
