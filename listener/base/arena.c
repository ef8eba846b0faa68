/* arena.c allocates many small pieces that are freed together, such as the parts of a reply from Redis. */
#include "base/arena.h"

#include <stdlib.h>

#include "base/memory.h"

struct arena_block {
	_Alignas(16) struct arena_block *next; /* aligned, so that the piece after it is aligned too */
};

static void *take_block(struct arena *a, size_t need)
{
	struct arena_block *block = memory_alloc(sizeof(*block) + need);

	block->next = a->blocks;
	a->blocks = block;
	a->taken += need;
	return block + 1;
}

void *arena_alloc(struct arena *a, size_t size)
{
	size_t need = (size + !size + 15) & ~(size_t)15;

	if (need > a->size - a->used)
		return take_block(a, need);
	a->used += need;
	return a->room + a->used - need;
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
