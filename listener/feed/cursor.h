/* cursor.h: how far a source has been read: the arithmetic of a profile's cursor. */
#ifndef WSONCE_FEED_CURSOR_H
#define WSONCE_FEED_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/slice.h"
#include "config/profile.h"

/* One value. What is not an integer is compared, and given back as it came. */
struct mark {
	enum { MARK_NONE, MARK_INTEGER, MARK_REAL, MARK_TEXT, MARK_OTHER } kind;
	__int128 number;
	struct bytes json; /* of all but integers */
};

struct cursor {
	const struct profile *profile;
	struct mark mark;    /* all up to here is durable */
	struct mark pending; /* what it becomes when it is no longer held */
	bool is_held;
	bool is_restored; /* mark is from the store: another profile may have written it */
	int64_t moved_s;  /* when mark was set last; since 1970 */
	struct bytes shown;
};

void cursor_free(struct cursor *c);
/* A connection begins: hold_until holds the cursor again. */
void cursor_connect(struct cursor *c);
/* A frame matched hold_until. */
void cursor_release(struct cursor *c);
void cursor_clear(struct cursor *c);

/* Up to value, as the source wrote it; is_held: not before cursor_release. false: it is of another kind than the cursor
 * or its format, and is ignored. */
bool cursor_advance(struct cursor *c, struct slice value, int64_t now_s, bool is_held);
/* Takes a mark that cursor_mark gave at that time. The first cursor that comes takes its place, larger or not. */
bool cursor_restore(struct cursor *c, struct slice mark, int64_t since_s);

/* As JSON, {NULL, 0} if there is none; lives until the next call. _next is rewound and in the profile's format. */
struct slice cursor_mark(struct cursor *c);
struct slice cursor_next(struct cursor *c);

#endif
