/* cursors.h: from where sources are to be asked again, until Postgres has it. No I/O. */
#ifndef WSONCE_CURSORS_H
#define WSONCE_CURSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define CURSORS_PERIOD_MS 1000 /* between two statements */

struct cursor {
	const char *source;     /* its name */
	const char *scope;      /* "": the whole source; a host; or "session" */
	struct slice value;     /* JSON: a number or a string */
	struct slice variables; /* of the session, a JSON object; at NULL: none */
	const char *
		kind; /* as session_cursor_kind gives it: of one that begins with max the largest of the fleet counts */
	int64_t changed_s; /* since 1970, of one that was read */
};

enum cursor_state {
	CURSOR_STORED,
	CURSOR_NEW,        /* to be stored */
	CURSOR_SENT,       /* its statement has no answer */
	CURSOR_SENT_STALE, /* nor has it, and there is a newer one to be stored */
};

/* A cursor that is kept, with texts of its own. */
struct kept_cursor {
	struct cursor cursor;
	enum cursor_state state;
};

struct cursors {
	struct kept_cursor *items;
	size_t count;
	int64_t due_ms;  /* loop clock: not before */
	bool has_failed; /* the last statement */
};

/* Takes one, in place of the one that the source had for this scope. Copied. */
void cursors_put(struct cursors *c, const struct cursor *cursor);

/* Are there any to be stored now? At the end, also before the period is over, but not if the last try failed. */
bool cursors_are_due(const struct cursors *c, bool is_end, int64_t now_ms);
bool cursors_are_sent(const struct cursors *c);

/* Those that are to be stored are sent now; */
void cursors_send(struct cursors *c, int64_t now_ms);
/* and are stored, or are to be sent again. */
void cursors_answer(struct cursors *c, bool is_stored);

/* Forgets all: the database has forgotten what they cover. An answer may still come. */
void cursors_clear(struct cursors *c);

#endif
