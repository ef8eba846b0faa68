/* batch.c owns the limits and the order of a batch; store_postgres.c sends it. */
#include "road/batch.h"

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
	*b = (struct batch){NULL};
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

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;

	return compare(x->id, x->id_len, y->id, y->id_len);
}

void batch_sort(struct batch *b)
{
	qsort(b->events, b->count, sizeof(*b->events), compare_events);
}

long batch_find(const struct batch *b, size_t from, size_t to, size_t guess, const char *id, size_t len)
{
	if (guess >= from && guess < to && compare(id, len, b->events[guess]->id, b->events[guess]->id_len) == 0)
		return (long)guess;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		int order = compare(id, len, b->events[mid]->id, b->events[mid]->id_len);

		if (order == 0)
			return (long)mid;
		if (order < 0)
			to = mid;
		else
			from = mid + 1;
	}
	return -1;
}
