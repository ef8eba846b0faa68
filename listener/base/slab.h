/* slab.h: memory for what comes and goes by the hundred thousand a second, of some hundred bytes each. One thread. */
#ifndef WSONCE_SLAB_H
#define WSONCE_SLAB_H

#include <stddef.h>

/* At least size bytes, aligned to 64, which is a line of the processor's cache. */
void *slab_alloc(size_t size);
/* size: as it was asked for, or the slab_room() of that. */
void slab_free(void *block, size_t size);
/* The bytes that an allocation of this size takes. */
size_t slab_room(size_t size);

#endif
