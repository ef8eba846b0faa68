/* copy.c owns the wire form of COPY's binary rows (Postgres's manual, COPY, "Binary Format"). */
#include "copy.h"

#include <arpa/inet.h>
#include <string.h>

#define COLUMNS 3

/* Signature, flags, and the length of a header extension. */
static const char head[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
static const char tail[2] = "\377\377";

static char *put_number(char *at, size_t n)
{
	uint32_t wire = htonl((uint32_t)n);

	return mempcpy(at, &wire, sizeof(wire));
}

static char *put_bytes(char *at, const char *bytes, size_t len)
{
	return mempcpy(put_number(at, len), bytes, len);
}

static void put_event(struct array *a, const struct event *ev)
{
	size_t len = 2 + 4 * COLUMNS + 1 + ev->id_len + ev->type_len + ev->payload.len;
	char *at = a->len ? array_reserve(a, len) : NULL;

	if (!at)
		return;
	*at++ = 0;
	*at++ = COLUMNS;
	at = put_bytes(at, ev->id, ev->id_len);
	at = put_bytes(at, ev->type, ev->type_len);
	at = put_number(at, ev->payload.len + 1);
	*at++ = 1; /* jsonb_recv wants the version before the text */
	memcpy(at, ev->payload.at, ev->payload.len);
	a->len += len;
}

static void put(struct array *a, const char *bytes, size_t len)
{
	char *at = array_reserve(a, len);

	if (!at)
		return;
	memcpy(at, bytes, len);
	a->len += len;
}

void copy_events(struct array *a, struct event *const *evs, const bool *is_passed, size_t n)
{
	a->len = 0;
	put(a, head, sizeof(head));
	for (size_t i = 0; i < n; i++)
		if (!is_passed[i])
			put_event(a, evs[i]);
	if (a->len)
		put(a, tail, sizeof(tail));
}
