/* hold.h: events that wait for their next step. No I/O; time is an argument. */
#ifndef WSONCE_HOLD_H
#define WSONCE_HOLD_H

#include <stdint.h>

#include "event/event.h"

#define HOLD_STEPS    12 /* delays: HOLD_FIRST_MS times 1, 2, 4, ... 2048 */
#define HOLD_FIRST_MS 50

struct hold {
	/* One queue per delay, so that each is in the order of due times. */
	struct list queues[HOLD_STEPS];
};

void hold_init(struct hold *h);

/* Keeps ev until now_ms + HOLD_FIRST_MS * 2^step; a step past the last counts as the last. */
void hold_add(struct hold *h, struct event *ev, int64_t now_ms, unsigned int step);
void hold_remove(struct event *ev);

/* Removes and returns an event that is due at now_ms; NULL if there is none. */
struct event *hold_due(struct hold *h, int64_t now_ms);

/* Milliseconds until the next event is due, 0 if one is; -1 if none waits. */
int64_t hold_wait(const struct hold *h, int64_t now_ms);

#endif
