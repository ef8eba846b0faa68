/* Pieces of slab.c do not overlap, and pieces and slabs are used again. */
#include "base/slab.h"

#include <malloc.h>
#include <unistd.h>

#include "unit.h"

enum { PIECES = 5000 };

static unsigned char *pieces[PIECES];
static size_t sizes[PIECES];

static size_t size_of(size_t i)
{
	return 1 + i * 37 % 5000; /* some are too large for a slab */
}

static void take(size_t i)
{
	sizes[i] = size_of(i);
	pieces[i] = slab_alloc(sizes[i]);
	memset(pieces[i], (int)(i % 251), sizes[i]);
}

static void give_back(size_t i)
{
	for (size_t k = 0; k < sizes[i]; k++)
		cr_assert_eq(pieces[i][k], i % 251, "piece %zu is another's, too", i);
	slab_free(pieces[i], sizes[i]);
}

Test(slab, pieces_do_not_overlap)
{
	for (size_t i = 0; i < PIECES; i++)
		take(i);
	for (size_t i = 0; i < PIECES; i += 3)
		give_back(i);
	for (size_t i = 0; i < PIECES; i += 3)
		take(i);
	for (size_t i = 0; i < PIECES; i++)
		give_back(PIECES - 1 - i);
}

Test(slab, piece_is_used_again)
{
	void *first = slab_alloc(300);
	uintptr_t at = (uintptr_t)first;

	slab_free(first, 300);
	first = slab_alloc(299);
#ifdef __SANITIZE_ADDRESS__
	(void)at;
#else
	cr_assert_eq((uintptr_t)first, at);
	cr_assert_eq(at % 64, 0);
#endif
	slab_free(first, 299);
}

#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t all, pages = 0;

	cr_assert(f && fscanf(f, "%zu %zu", &all, &pages) == 2);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Blocks of others, which come and stay between them, must not keep slabs from being used again. */
Test(slab, little_of_what_is_unused_is_kept)
{
	size_t before = resident(), after, others = 0;

	for (size_t round = 0; round < 20; round++) {
		for (size_t i = 0; i < PIECES; i++) {
			pieces[i] = slab_alloc(4000);
			memset(pieces[i], 1, 4000);
			if (i % 100 == 0)
				others += malloc_usable_size(memset(malloc(30000), 1, 30000));
		}
		for (size_t i = 0; i < PIECES; i++)
			slab_free(pieces[i], 4000);
	}
	after = resident() - others;
	cr_assert_leq(after - before, 100 * 65536, "%zu bytes are kept", after - before);
}
#endif

Test(slab, room_is_what_is_charged)
{
	cr_assert_geq(slab_room(1), 1);
	cr_assert_geq(slab_room(300), 300);
	cr_assert_geq(slab_room(1 << 20), 1 << 20);
}
