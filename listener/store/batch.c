/* batch.c keeps the limits and the order of a batch; store_postgres.c sends it. */
#include "store/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/fault_point.h"

void batch_init(struct batch *b, size_t max_count, size_t max_bytes)
{
	*b = (struct batch){.max_count = max_count, .max_bytes = max_bytes};
	b->events = memory_alloc(max_count * sizeof(*b->events));
}

void batch_free(struct batch *b)
{
	free(b->events);
	b->events = NULL;
	b->count = 0;
}

void batch_clear(struct batch *b)
{
	b->count = 0;
	b->bytes = 0;
}

bool batch_add(struct batch *b, struct event *ev)
{
	if (b->count == b->max_count ||
	    (b->count && (b->bytes + ev->message_len > b->max_bytes || FAULT_POINT("batch: full early"))))
		return false;
	b->events[b->count++] = ev;
	b->bytes += ev->message_len;
	return true;
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;
	int order = memcmp(x->id, y->id, x->id_len < y->id_len ? x->id_len : y->id_len);

	return order ? order : (x->id_len > y->id_len) - (x->id_len < y->id_len);
}

void batch_sort(const struct batch *b, size_t from, size_t to)
{
	qsort(b->events + from, to - from, sizeof(*b->events), compare_events);
}

static long find(const struct batch *b, size_t from, size_t to, const char *id, size_t len)
{
	for (size_t i = from; i < to; i++)
		if (b->events[i]->id_len == len && memcmp(b->events[i]->id, id, len) == 0)
			return (long)i;
	return -1;
}

long batch_find(const struct batch *b, size_t from, size_t to, size_t guess, const char *id, size_t len)
{
	long at = guess >= from && guess < to ? find(b, guess, to, id, len) : -1;

	return at < 0 ? find(b, from, to, id, len) : at;
}
