/* A growing buffer. */
#include "buffer.h"

#include "support.h"

unsigned char *buffer_reserve(struct buffer *b, size_t n)
{
	if (b->len + n + 1 > b->room) {
		b->room = (b->len + n + 1) * 2;
		b->bytes = realloc(b->bytes, b->room);
		if (!b->bytes)
			abort();
	}
	return b->bytes + b->len;
}

void buffer_grow(struct buffer *b, size_t n)
{
	b->len += n;
	b->bytes[b->len] = 0;
}

void buffer_append(struct buffer *b, const void *bytes, size_t n)
{
	unsigned char *end = buffer_reserve(b, n);

	if (n)
		memcpy(end, bytes, n);
	buffer_grow(b, n);
}

void buffer_consume(struct buffer *b, size_t n)
{
	if (!n)
		return;
	memmove(b->bytes, b->bytes + n, b->len - n);
	b->len -= n;
	b->bytes[b->len] = 0;
}

void buffer_clear(struct buffer *b)
{
	free(b->bytes);
	*b = (struct buffer){0};
}
