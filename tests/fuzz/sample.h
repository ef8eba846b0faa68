/* sample.h: messages made by chance in which the pointers lead somewhere. */
#ifndef FUZZ_SAMPLE_H
#define FUZZ_SAMPLE_H

#include <stddef.h>

#include "pointers.h"

/* Writes at most size bytes of JSON; the seed decides all. Returns how many bytes there are, 0 if they
 * do not fit. */
size_t sample_write(char *out, size_t size, const struct pointers *p, unsigned int seed);

#endif
