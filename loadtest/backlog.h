/* backlog.h: frames that were made once and are written to many, each reader with a cursor. */
#ifndef WSONCE_BACKLOG_H
#define WSONCE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backlog;
struct chunk;

/* Where a reader is. Always between two messages. */
struct cursor {
	struct chunk *chunk; /* NULL: reads nothing */
	size_t offset;       /* bytes of the chunk that were read */
	size_t messages;     /* messages of the chunk that were read */
};

/* What a reader may write next: whole frames. Stays until its cursor moves again or closes. */
struct span {
	const uint8_t *bytes;
	size_t len;
	size_t messages;
};

/* NULL when there is no memory. */
struct backlog *backlog_new(void);

/* Adds a text message as a frame, behind all others. Returns -1 when there is no memory. */
int backlog_append(struct backlog *b, const char *text, size_t len);

/* Bytes from the slowest cursor (to the grain of a chunk) to the end. */
uint64_t backlog_bytes(const struct backlog *b);

/* A new cursor sees what is appended from now on. */
void cursor_open(struct cursor *c, struct backlog *b);

/* Whether there is something to read, and what; the cursor moves behind it. */
bool cursor_read(struct cursor *c, struct backlog *b, struct span *span);

bool cursor_is_at_end(const struct cursor *c, const struct backlog *b);
uint64_t cursor_bytes_left(const struct cursor *c, const struct backlog *b);

/* May be called twice. */
void cursor_close(struct cursor *c, struct backlog *b);

/* Every cursor must be closed. */
void backlog_free(struct backlog *b);

#endif
