/* cursors.h: where each source will resume, until it is stored in Postgres. No I/O. */
#ifndef WSONCE_CURSORS_H
#define WSONCE_CURSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define CURSORS_PERIOD_MS 1000 /* time between two statements */

struct cursor {
	const char *source;     /* its name */
	const char *scope;      /* "" for the whole source, a host, or "session" */
	struct slice value;     /* JSON number or string */
	struct slice variables; /* JSON object with the session's variables; at is NULL if there are none */
	const char *kind;  /* from session_cursor_kind(); if it begins with "max", the fleet's largest value wins */
	int64_t changed_s; /* Unix time; set only when read from Postgres */
};

/* A cursor with its own copies of the texts. */
struct kept_cursor {
	struct cursor cursor;
	unsigned int version; /* version of its value, from 1 */
	unsigned int sent;    /* version that was sent and has no answer yet; 0: none */
	unsigned int stored;  /* newest version in Postgres */
};

struct cursors {
	struct kept_cursor *items;
	size_t count;
	int64_t due_ms;        /* loop clock: earliest time of the next statement */
	unsigned int failures; /* statements in a row that failed */
};

/* Replaces the cursor of this source and scope. Copies its texts. */
void cursors_put(struct cursors *c, const struct cursor *cursor);

/* True if cursors should be sent now. With is_end (the listener is stopping) the period is ignored, unless the last
 * statement failed. */
bool cursors_are_due(const struct cursors *c, bool is_end, int64_t now_ms);
bool cursors_are_sent(const struct cursors *c);

/* Marks all new cursors as sent. */
void cursors_send(struct cursors *c, int64_t now_ms);
/* The statement was answered: its cursors are stored, or will be sent again. */
void cursors_answer(struct cursors *c, bool is_stored);

/* Forgets all cursors, because the database lost events that they cover. An answer may still arrive. */
void cursors_clear(struct cursors *c);

#endif
