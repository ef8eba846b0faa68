/* slab.h: memory for small objects that are allocated a hundred thousand times a second. Not thread-safe. */
#ifndef WSONCE_SLAB_H
#define WSONCE_SLAB_H

#include <stddef.h>

/* Returns at least size bytes. Up to 4 KiB they are aligned to a cache line, 64 bytes. */
void *slab_alloc(size_t size);
/* size is what slab_alloc was asked for, or slab_room() of that. */
void slab_free(void *block, size_t size);
/* Returns the bytes that an allocation of this size takes. */
size_t slab_room(size_t size);

#endif
