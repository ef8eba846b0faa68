/* slice.h: bytes that something else owns. */
#ifndef WSONCE_SLICE_H
#define WSONCE_SLICE_H

#include <stddef.h>

/* Not NUL-terminated. at is NULL if there is no value, which is not the same as an empty one. */
struct slice {
	const char *at;
	size_t len;
};

#endif
