/* overdue.h: events that have been in flight in this listener for too long, and a warning about them. */
#ifndef WSONCE_OVERDUE_H
#define WSONCE_OVERDUE_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

struct overdue {
	size_t count;                        /* events in flight for longer than the limit */
	int64_t oldest_ms;                   /* age of the oldest event; 0 if there is none */
	const char *state;                   /* its state; NULL if there is none */
	char oldest_id[ENVELOPE_ID_MAX + 1]; /* its id; "" if it has none */
};

/* Returns the age of the oldest event, in constant time. now_ms is the loop clock. */
int64_t overdue_oldest_ms(const struct events *es, int64_t now_ms);

/* Returns the age of the oldest event if it is more than limit_s, else 0. limit_s 0: no limit. */
int64_t overdue_ms(const struct events *es, int64_t now_ms, int64_t limit_s);

/* Fills in u. Takes time in proportion to the number of overdue events. */
void overdue_check(struct overdue *u, const struct events *es, int64_t now_ms, int64_t limit_ms);

/* Logs a warning when the oldest event exceeds the limit (0: never), at most one a minute, and one line when no event
 * does. Call it every second. Initialize w with zeros. */
struct overdue_watch {
	int64_t warned_ms; /* loop clock, the last warning; 0: none yet */
	bool is_told;      /* that events are overdue now */
};

void overdue_watch(struct overdue_watch *w, const struct events *es, int64_t now_ms, int64_t limit_ms);

#endif
