/* spooling.h: which events go to the spool, leave memory for it, and come back (docs/spool.md). */
#ifndef WSONCE_SPOOLING_H
#define WSONCE_SPOOLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "config/config.h"
#include "claim/claim.h"
#include "event/event.h"
#include "spool/spool.h"

struct pipeline;

struct spooling {
	uv_loop_t *loop;
	const struct config *config;
	struct events *events;
	struct claim *claim;
	struct pipeline *pipeline;
	struct spool *spool; /* NULL: there is none */
	int64_t after_us;    /* so long an event may take before it is written; 0: it is written before it is claimed */
	/* Events by their spool_link, each list in order of arrival: */
	struct list fresh;   /* not given to the spool yet, */
	struct list writing; /* given, but not written yet, */
	struct list written; /* and on disk */
	struct list names;   /* of sources that records have named */
	bool was_out;        /* the spool could not be written when it was last looked at */
	int64_t due_ms;      /* loop clock: an event is to be written then; 0: none is */
	bool is_draining;    /* all is written at once, and nothing is read */
	bool is_leaving;     /* the drain is over, but for what is to be written; */
	bool is_syncing;     /* and that is under way */
};

/* What it is given must outlive it; it tells the pipeline by road/settling.h. */
void spooling_init(struct spooling *s, uv_loop_t *loop, const struct config *config, struct events *events,
		   struct claim *claim, struct pipeline *pipeline);
/* spool, which may be NULL, is closed by spooling_close. */
void spooling_use(struct spooling *s, struct spool *spool);

/* A new event. Returns true if it is to be claimed later, by spooling.c, once it is on disk. */
bool spooling_take(struct spooling *s, struct event *ev, bool is_ours);
/* A message that was on disk is now ev, or a copy of it. */
void spooling_join(struct spooling *s, struct event *ev, struct spool_segment *segment, uint64_t ordinal);
/* ev has settled. */
void spooling_settle(struct spooling *s, struct event *ev);

/* Once in each turn of the loop: writes what is due, and keeps memory between a quarter and half of the budget. */
void spooling_turn(struct spooling *s);
/* Milliseconds until the next turn is due; -1: nothing waits. */
int64_t spooling_wait(const struct spooling *s);
void spooling_drain(struct spooling *s);

/* The drain timeout is over: pipeline_on_left() is called once all that can be is on disk. Returns false without a
 * spool. */
bool spooling_leave(struct spooling *s);
/* Messages in memory that would be lost if the process ended now. */
size_t spooling_unsafe(const struct spooling *s);

/* Calls done, with arg, if there is a spool. */
void spooling_close(struct spooling *s, void (*done)(void *arg), void *arg);
/* Call when no event is left. */
void spooling_free(struct spooling *s);

#endif
