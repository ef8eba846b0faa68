/* bulk_load.c owns the binary format of COPY (PostgreSQL manual, COPY, "Binary Format"), and the columns of a row that
 * say where and when its event came from. */
#include "store/bulk_load.h"

#include <string.h>

#define COLUMNS 7

/* The signature, the flags, and the length of the header extension. */
static const char head[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
static const char tail[2] = "\377\377";

void bulk_add_source(struct array *a, const struct event *ev)
{
	const char *source = event_source(ev);

	if (source)
		array_add_ascii(a, source, strlen(source));
	else
		array_add_null(a);
}

void bulk_add_time(struct array *a, const struct event *ev)
{
	if (ev->has_time)
		array_add_time(a, ev->time_us);
	else
		array_add_null(a);
}

static void put(struct array *a, const char *bytes, size_t len)
{
	memcpy(array_reserve(a, len), bytes, len);
	a->len += len;
}

/* A field has the format of an array element: its length, then the binary form of its type. */
static void put_event(struct array *a, const struct event *ev, const char *instance, size_t instance_len)
{
	static const char columns[] = {0, COLUMNS};

	put(a, columns, sizeof(columns));
	a->type = ARRAY_TEXT;
	array_add(a, ev->id, ev->id_len);
	array_add(a, ev->type, ev->type_len);
	a->type = ARRAY_JSONB;
	array_add(a, ev->payload.at, ev->payload.len);
	a->type = ARRAY_TEXT;
	bulk_add_source(a, ev);
	array_add_time(a, ev->came_us);
	bulk_add_time(a, ev);
	array_add_ascii(a, instance, instance_len);
}

bool copy_next(struct copy_stream *c, struct array *a, size_t enough)
{
	size_t instance_len = strlen(c->instance);

	a->len = 0;
	if (c->at > c->count)
		return false;
	if (c->at == 0)
		put(a, head, sizeof(head));
	for (; c->at < c->count && a->len < enough; c->at++) {
		if (c->at + EVENT_FETCH < c->count)
			event_fetch(c->evs[c->at + EVENT_FETCH]);
		if (!c->is_passed[c->at])
			put_event(a, c->evs[c->at], c->instance, instance_len);
	}
	if (c->at == c->count) {
		put(a, tail, sizeof(tail));
		c->at++;
	}
	return true;
}
