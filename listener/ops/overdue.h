/* overdue.h: events that have been in flight in this listener for too long, and a warning about them. */
#ifndef WSONCE_OVERDUE_H
#define WSONCE_OVERDUE_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

/* Returns the age of the oldest event, in constant time; 0 if there is none. now_ms is the loop clock. */
int64_t overdue_oldest_ms(const struct events *es, int64_t now_ms);

/* Returns the age of the oldest event if it is more than limit_s, else 0. limit_s 0: no limit. */
int64_t overdue_ms(const struct events *es, int64_t now_ms, int64_t limit_s);

/* Logs a warning when the oldest event exceeds the limit (0: never), at most one a minute, and one line when no event
 * does. Call it every second. Initialize w with zeros. */
struct overdue_watch {
	int64_t warned_ms; /* loop clock, the last warning; 0: none yet */
	bool is_told;      /* that events are overdue now */
};

void overdue_watch(struct overdue_watch *w, const struct events *es, int64_t now_ms, int64_t limit_ms);

#endif
