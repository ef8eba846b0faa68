/* slab.c cuts pieces of equal size from slabs of 64 KiB. malloc searches for a place for each event and joins free
 * neighbours, which took a sixth of a listener's time. Here the piece freed last is the next one given out, and pieces
 * of the same age lie together.
 *
 * A slab with no piece in use is spare, for pieces of any size. It does not go back to malloc: between two blocks that
 * are aligned to their own size malloc has a gap of that size, and once a small block lies there, malloc cannot use the
 * room around it again. Beyond KEPT of them, the kernel gets all pages of a spare slab but the first. */
#include "base/slab.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/list.h"
#include "base/memory.h"

#define SLAB_BYTES (64u << 10) /* size and alignment of a slab, so that a piece's address gives its slab */
#define LINE       64u
#define SIZES      64u /* a piece has 1 to SIZES cache lines */
#define AT_ONCE    16u /* slabs asked of malloc, because of the gap behind them */
#define KEPT       64u /* spare slabs with all pages: one or two batches of events free about this many */
#define PAGE       4096u

struct piece {
	struct piece *next;
};

/* The header of a slab. */
struct slab {
	struct list link; /* in the list of its size while it has a free piece; else linked to itself */
	struct piece *given_back;
	unsigned int used;  /* pieces in use */
	unsigned int fresh; /* pieces never given out, at its end */
};

/* Slabs with free pieces, by lines per piece. next is NULL before first use. */
static struct list by_size[SIZES + 1];

/* Spare slabs, linked by next, and those of which the kernel has all pages but the first. */
static struct list *spares, *hollow;
static unsigned int spare_count;

static unsigned int lines_of(size_t size)
{
	return (unsigned int)((size + LINE - 1) / LINE);
}

/* The sanitizer must see each piece, and the simulator frees all memory of a dead process. Large pieces are rare. */
static bool is_for_malloc(size_t size)
{
#if defined(__SANITIZE_ADDRESS__) || defined(WSONCE_SIMULATED)
	(void)size;
	return true;
#else
	return size > (size_t)SIZES * LINE;
#endif
}

static unsigned int count_of(unsigned int lines)
{
	return (SLAB_BYTES - LINE) / (lines * LINE);
}

static void add_spare(struct slab *s)
{
	struct list **to = spare_count < KEPT ? &spares : &hollow;

	s->link.next = *to;
	*to = &s->link;
	if (to == &spares)
		spare_count++;
	else
		madvise((char *)s + PAGE, SLAB_BYTES - PAGE, MADV_DONTNEED);
}

static struct slab *slab_new(struct list *slabs, unsigned int lines)
{
	struct list **from;
	struct slab *s;

	if (!spares && !hollow) {
		s = memory_given(aligned_alloc(SLAB_BYTES, (size_t)AT_ONCE * SLAB_BYTES), NULL);
		for (size_t i = 0; i < AT_ONCE; i++)
			add_spare((struct slab *)((char *)s + i * SLAB_BYTES));
	}
	from = spares ? &spares : &hollow;
	s = list_entry(*from, struct slab, link);
	*from = (*from)->next;
	spare_count -= from == &spares;
	*s = (struct slab){.fresh = count_of(lines)};
	list_append(slabs, &s->link);
	return s;
}

static void *take(struct slab *s, unsigned int lines)
{
	struct piece *p = s->given_back;

	s->used++;
	if (!p)
		return (char *)s + SLAB_BYTES - (size_t)s->fresh-- * lines * LINE;
	s->given_back = p->next;
	__builtin_prefetch(p->next);
	return p;
}

void *slab_alloc(size_t size)
{
	unsigned int lines = lines_of(size);
	struct list *slabs = &by_size[lines <= SIZES ? lines : 0];
	struct slab *s;
	void *block;

	if (is_for_malloc(size))
		return memory_alloc(size);
	if (!slabs->next)
		list_init(slabs);
	s = list_is_empty(slabs) ? slab_new(slabs, lines) : list_entry(slabs->next, struct slab, link);
	block = take(s, lines);
	if (!s->given_back && !s->fresh)
		list_remove(&s->link);
	return block;
}

/* s becomes spare if it is unused, but not the first slab of the list, from which the next pieces come. */
static void check_unused(struct slab *s, const struct list *slabs)
{
	if (s->used || slabs->next == &s->link)
		return;
	list_remove(&s->link);
	add_spare(s);
}

void slab_free(void *block, size_t size)
{
	struct slab *s = (struct slab *)((uintptr_t)block & ~(uintptr_t)(SLAB_BYTES - 1));
	struct list *slabs = &by_size[lines_of(size) <= SIZES ? lines_of(size) : 0];
	struct piece *p = block;

	if (is_for_malloc(size)) {
		free(block);
		return;
	}
	if (list_is_empty(&s->link))
		list_append(slabs, &s->link);
	p->next = s->given_back;
	s->given_back = p;
	s->used--;
	check_unused(s, slabs);
}

size_t slab_room(size_t size)
{
	return is_for_malloc(size) ? size + LINE / 2 : (size_t)lines_of(size) * LINE;
}
