/* backlog.h: frames that are made once and written to many readers, each with its own cursor. */
#ifndef WSONCE_BACKLOG_H
#define WSONCE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backlog;
struct chunk;

/* A reader's position, always between two messages. */
struct cursor {
	struct chunk *chunk; /* NULL if closed */
	size_t offset;       /* bytes read of the chunk */
	size_t messages;     /* messages read of the chunk */
};

/* Whole frames for a reader to write next. Valid until its cursor moves again or closes. */
struct span {
	const uint8_t *bytes;
	size_t len;
	size_t messages;
};

/* NULL if out of memory. */
struct backlog *backlog_new(void);

/* Appends a text message as a frame. Returns -1 if out of memory. */
int backlog_append(struct backlog *b, const char *text, size_t len);

/* Bytes from the slowest cursor to the end, rounded up to a chunk. */
uint64_t backlog_bytes(const struct backlog *b);

/* The new cursor reads messages that are appended from now on. */
void cursor_open(struct cursor *c, struct backlog *b);

/* Reads the next span and moves the cursor past it. Returns false if there is none. */
bool cursor_read(struct cursor *c, struct backlog *b, struct span *span);

bool cursor_is_at_end(const struct cursor *c, const struct backlog *b);
uint64_t cursor_bytes_left(const struct cursor *c, const struct backlog *b);

/* May be called twice. */
void cursor_close(struct cursor *c, struct backlog *b);

/* Close all cursors first. */
void backlog_free(struct backlog *b);

#endif
