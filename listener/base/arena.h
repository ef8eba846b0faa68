/* arena.h: memory that is given out piece by piece and taken back all at once. */
#ifndef WSONCE_ARENA_H
#define WSONCE_ARENA_H

#include <stddef.h>

/* What is needed again and again comes from room; malloc serves the rest. */
struct arena {
	char *room; /* aligned for any type; the owner's */
	size_t size;
	size_t used;
	size_t taken;               /* bytes from malloc */
	struct arena_block *blocks; /* from malloc */
};

/* At least size bytes, aligned for any type, until arena_clear. */
void *arena_alloc(struct arena *a, size_t size);
/* As realloc, of something from this arena, or of NULL. The old place stays as it is. */
void *arena_realloc(struct arena *a, void *old, size_t size);
void arena_clear(struct arena *a);

#endif
