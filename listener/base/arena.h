/* arena.h: an allocator whose pieces are all freed at once. */
#ifndef WSONCE_ARENA_H
#define WSONCE_ARENA_H

#include <stddef.h>

/* Pieces come from room until it is full, then from malloc. */
struct arena {
	char *room; /* aligned for any type; owned by the caller */
	size_t size;
	size_t used;
	size_t taken;               /* bytes from malloc */
	struct arena_block *blocks; /* from malloc */
};

/* Returns size bytes, aligned for any type. They stay valid until arena_clear. */
void *arena_alloc(struct arena *a, size_t size);
void arena_clear(struct arena *a);

#endif
