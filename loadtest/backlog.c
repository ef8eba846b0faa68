/* backlog.c owns the messages between the generator and the slowest reader: a list of chunks, each
 * filled once with ready frames and freed when the last reader has left it. It knows no sockets.
 * The caller limits the length of the list. */
#include "backlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "frame.h"

enum { CHUNK_BYTES = 64 << 10 }; /* one write; a longer message has a chunk of its own */

struct chunk {
	struct list link; /* in backlog.chunks */
	uint64_t start;   /* bytes appended before this chunk */
	size_t size;      /* of bytes[] */
	size_t used;
	size_t messages;      /* in bytes[0..used) */
	unsigned int readers; /* cursors in this chunk */
	uint8_t bytes[];
};

struct backlog {
	struct list chunks;  /* oldest first, never empty; the last one is being filled */
	struct chunk *spare; /* a free chunk of the usual size, or NULL */
	uint64_t end;        /* bytes ever appended */
};

static struct chunk *first(const struct backlog *b)
{
	return list_entry(b->chunks.next, struct chunk, link);
}

static struct chunk *last(const struct backlog *b)
{
	return list_entry(b->chunks.prev, struct chunk, link);
}

static struct chunk *chunk_add(struct backlog *b, size_t size)
{
	struct chunk *c = size == CHUNK_BYTES ? b->spare : NULL;

	if (c)
		b->spare = NULL;
	else
		c = malloc(sizeof(*c) + size);
	if (!c)
		return NULL;
	*c = (struct chunk){.start = b->end, .size = size};
	list_append(&b->chunks, &c->link);
	return c;
}

static void chunk_drop(struct backlog *b, struct chunk *c)
{
	list_remove(&c->link);
	if (!b->spare && c->size == CHUNK_BYTES)
		b->spare = c;
	else
		free(c);
}

/* Frees chunks that every cursor has read. */
static void trim(struct backlog *b)
{
	while (!first(b)->readers && first(b) != last(b))
		chunk_drop(b, first(b));
}

struct backlog *backlog_new(void)
{
	struct backlog *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	list_init(&b->chunks);
	if (!chunk_add(b, CHUNK_BYTES)) {
		free(b);
		return NULL;
	}
	return b;
}

int backlog_append(struct backlog *b, const char *text, size_t len)
{
	uint8_t header[FRAME_HEADER_MOST];
	size_t before = frame_header(header, FRAME_TEXT, len, NULL);
	size_t need = before + len;
	struct chunk *c = last(b);

	if (c->size - c->used < need) {
		c = chunk_add(b, need > CHUNK_BYTES ? need : CHUNK_BYTES);
		if (!c)
			return -1;
		trim(b);
	}
	memcpy(c->bytes + c->used, header, before);
	memcpy(c->bytes + c->used + before, text, len);
	c->used += need;
	c->messages++;
	b->end += need;
	return 0;
}

uint64_t backlog_bytes(const struct backlog *b)
{
	return b->end - first(b)->start;
}

static void enter(struct cursor *c, struct chunk *chunk, size_t offset, size_t messages)
{
	*c = (struct cursor){chunk, offset, messages};
	chunk->readers++;
}

void cursor_open(struct cursor *c, struct backlog *b)
{
	enter(c, last(b), last(b)->used, last(b)->messages);
}

bool cursor_read(struct cursor *c, struct backlog *b, struct span *span)
{
	struct chunk *at = c->chunk;

	if (cursor_is_at_end(c, b))
		return false;
	if (c->offset == at->used) {
		at->readers--;
		at = list_entry(at->link.next, struct chunk, link);
		enter(c, at, 0, 0);
		trim(b);
	}
	*span = (struct span){at->bytes + c->offset, at->used - c->offset, at->messages - c->messages};
	c->offset = at->used;
	c->messages = at->messages;
	return true;
}

bool cursor_is_at_end(const struct cursor *c, const struct backlog *b)
{
	return !c->chunk || cursor_bytes_left(c, b) == 0;
}

uint64_t cursor_bytes_left(const struct cursor *c, const struct backlog *b)
{
	return c->chunk ? b->end - c->chunk->start - c->offset : 0;
}

void cursor_close(struct cursor *c, struct backlog *b)
{
	if (!c->chunk)
		return;
	c->chunk->readers--;
	c->chunk = NULL;
	trim(b);
}

void backlog_free(struct backlog *b)
{
	if (!b)
		return;
	list_each(node, after, &b->chunks)
		free(list_entry(node, struct chunk, link));
	free(b->spare);
	free(b);
}
