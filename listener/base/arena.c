/* arena.c allocates for libraries that want many small pieces and free them together, such as hiredis for a reply. */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct arena_block {
	struct arena_block *next;
};

/* The header of a piece. Its size keeps the piece aligned. */
struct piece {
	_Alignas(16) size_t size; /* for arena_realloc */
};

static void *take_block(struct arena *a, size_t need)
{
	struct arena_block *block = memory_alloc(sizeof(struct piece) + need);

	block->next = a->blocks;
	a->blocks = block;
	a->taken += need;
	return (char *)block + sizeof(struct piece);
}

void *arena_alloc(struct arena *a, size_t size)
{
	size_t need = (sizeof(struct piece) + size + 15) & ~(size_t)15;
	struct piece *piece;

	if (need <= a->size - a->used) {
		piece = (struct piece *)(void *)(a->room + a->used);
		a->used += need;
	} else {
		piece = take_block(a, need);
	}
	piece->size = size;
	return piece + 1;
}

void *arena_realloc(struct arena *a, void *old, size_t size)
{
	void *fresh = arena_alloc(a, size);
	size_t had = old ? ((struct piece *)old - 1)->size : 0;

	if (had)
		memcpy(fresh, old, had < size ? had : size);
	return fresh;
}

void arena_clear(struct arena *a)
{
	for (struct arena_block *block = a->blocks, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	a->blocks = NULL;
	a->used = a->taken = 0;
}
