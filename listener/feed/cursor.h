/* cursor.h: how far a source has been read: the arithmetic of a profile's cursor. */
#ifndef WSONCE_FEED_CURSOR_H
#define WSONCE_FEED_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/slice.h"
#include "config/profile.h"

/* A cursor value. Non-integers are compared and returned as they came. */
struct mark {
	enum { MARK_NONE, MARK_INTEGER, MARK_REAL, MARK_TEXT, MARK_OTHER } kind;
	__int128 number;
	struct bytes json; /* for non-integers */
};

/* True if b is ahead of a, or if they cannot be compared. is_hex: both are hexadecimal numbers in strings. */
bool cursor_is_ahead(struct slice a, struct slice b, bool is_hex);

struct cursor {
	const struct profile *profile;
	struct mark mark;    /* everything up to here is durable */
	struct mark pending; /* becomes mark at cursor_release */
	bool is_held;
	bool is_restored; /* mark is from the store; an older profile may have written it */
	int64_t moved_s;  /* Unix time when mark last changed */
	struct bytes printed;
};

void cursor_free(struct cursor *c);
/* Call for each new connection: holds the cursor until hold_until matches. */
void cursor_connect(struct cursor *c);
/* Call when a frame matches hold_until. */
void cursor_release(struct cursor *c);
void cursor_clear(struct cursor *c);

/* Advances to value, the source's JSON; if is_held, only at the next cursor_release. Returns false and ignores value if
 * it has the wrong kind or format for this cursor. */
bool cursor_advance(struct cursor *c, struct slice value, int64_t now_s, bool is_held);
/* Restores a mark that cursor_mark returned at since_s. The next cursor replaces it even if it is smaller. */
bool cursor_restore(struct cursor *c, struct slice mark, int64_t since_s);

/* Return the cursor as JSON, or {NULL, 0}, valid until the next call. cursor_next rewinds it and writes it in the
 * profile's format. */
struct slice cursor_mark(struct cursor *c);
struct slice cursor_next(struct cursor *c);

#endif
