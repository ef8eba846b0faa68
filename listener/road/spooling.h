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
	int64_t after_us;    /* ms an event may take before it is written; 0: it is written before it is claimed */
	/* Events, linked by spool_link, in order of arrival: */
	struct list fresh;   /* not yet given to the spool, */
	struct list writing; /* given but not yet written, */
	struct list written; /* on disk */
	struct list names;   /* names of sources in records */
	bool was_out;        /* the last check found that the spool cannot be written */
	int64_t due_ms;      /* loop clock: next event to be written; 0: none */
	bool is_draining;    /* draining: write at once, read nothing */
	bool is_leaving;     /* the drain is over, except for what must be written, */
	bool is_syncing;     /* and that is being written */
};

/* All arguments must outlive it. It calls the pipeline through road/settling.h. */
void spooling_init(struct spooling *s, uv_loop_t *loop, const struct config *config, struct events *events,
		   struct claim *claim, struct pipeline *pipeline);
/* spool, which may be NULL, is closed by spooling_close. */
void spooling_use(struct spooling *s, struct spool *spool);

/* Takes a new event. Returns true if spooling.c will have it claimed once it is on disk. */
bool spooling_take(struct spooling *s, struct event *ev, bool is_ours);
/* A message from disk is now ev, or a copy of it. */
void spooling_join(struct spooling *s, struct event *ev, struct spool_segment *segment, uint64_t ordinal);
/* ev has settled. */
void spooling_settle(struct spooling *s, struct event *ev);

/* Call once per turn of the loop: writes what is due, and keeps memory between a quarter and half of the budget. */
void spooling_turn(struct spooling *s);
/* Returns the milliseconds until the next call is due; -1: none. */
int64_t spooling_wait(const struct spooling *s);
void spooling_drain(struct spooling *s);

/* Call when the drain timeout is over: pipeline_on_left() is called once everything possible is on disk. Returns false
 * without a spool. */
bool spooling_leave(struct spooling *s);
/* Returns how many messages would be lost if the process ended now. */
size_t spooling_unsafe(const struct spooling *s);

/* Closes the spool, if there is one, and then calls done with arg. */
void spooling_close(struct spooling *s, void (*done)(void *arg), void *arg);
/* Call when no event is left. */
void spooling_free(struct spooling *s);

#endif
