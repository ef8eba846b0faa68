/* sample.h: makes random messages in which the pointers find values. */
#ifndef FUZZ_SAMPLE_H
#define FUZZ_SAMPLE_H

#include <stddef.h>

#include "pointers.h"

/* Writes at most size bytes of JSON, which depend only on the seed. Returns their number, 0 if they do not fit. */
size_t sample_write(char *out, size_t size, const struct pointers *p, unsigned int seed);

#endif
