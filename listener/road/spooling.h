/* spooling.h: which events go to the spool, leave memory for it, and come back (docs/spool.md). For pipeline.c. */
#ifndef WSONCE_SPOOLING_H
#define WSONCE_SPOOLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "road/event.h"
#include "spool/spool.h"

struct pipeline;

struct spooling {
	struct spool *spool; /* NULL: there is none */
	int64_t after_us;    /* so long an event may take before it is written; 0: it is written before it is claimed */
	/* Events by their spool_link, each list in order of arrival: */
	struct list fresh;   /* not given to the spool yet, */
	struct list writing; /* given, but not written yet, */
	struct list written; /* and on disk */
	struct list names;   /* of sources that records have named */
	bool was_out;        /* the spool could not be written when it was last looked at */
	bool is_leaving;     /* the drain is over, but for what is to be written; */
	bool is_syncing;     /* and that is under way */
};

/* spool may be NULL. It is closed by spooling_close. */
void spooling_open(struct pipeline *p, struct spool *spool);

/* A new event. Returns true if it is to be claimed later, by spooling.c, once it is on disk. */
bool spooling_take(struct pipeline *p, struct event *ev, bool is_ours);
/* A message that was on disk is now ev, or a copy of it. */
void spooling_join(struct pipeline *p, struct event *ev, struct spool_segment *segment, uint64_t ordinal);
/* ev has settled. */
void spooling_settle(struct pipeline *p, struct event *ev);

/* Once in each turn of the loop: writes what is due, and keeps memory between a quarter and half of the budget. */
void spooling_turn(struct pipeline *p);

/* The drain timeout is over: on_left is called once all that can be is on disk. Returns false without a spool. */
bool spooling_leave(struct pipeline *p);
/* Messages in memory that would be lost if the process ended now. */
size_t spooling_unsafe(const struct pipeline *p);

void spooling_close(struct pipeline *p);
/* Call when no event is left. */
void spooling_free(struct pipeline *p);

#endif
