/* overdue.h: events that are at work in this listener for unusually long, and a warning of them. */
#ifndef WSONCE_OVERDUE_H
#define WSONCE_OVERDUE_H

#include <stddef.h>
#include <stdint.h>

#include "road/event.h"

struct overdue {
	size_t count;                        /* events that are at work for longer than the limit */
	int64_t oldest_ms;                   /* how long the oldest of all is; 0: there is none */
	const char *state;                   /* of the oldest; NULL: there is none */
	char oldest_id[ENVELOPE_ID_MAX + 1]; /* "": it has none */
};

/* Only the time of the oldest event, which costs nothing. now_ms is the loop clock. */
int64_t overdue_oldest_ms(const struct events *es, int64_t now_ms);

/* All of it. Events beyond the limit are counted one by one. */
void overdue_check(struct overdue *u, const struct events *es, int64_t now_ms, int64_t limit_ms);

/* Logs a warning when the oldest gets older than the limit (0: never), again each minute while it is, and
 * one line when it is over. To be called each second; keeps what it needs to know in w, zero at first. */
struct overdue_watch {
	int64_t warned_ms; /* loop clock; 0: all is well */
};

void overdue_watch(struct overdue_watch *w, const struct events *es, int64_t now_ms, int64_t limit_ms);

#endif
