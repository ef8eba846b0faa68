/* spooling.h: which events go to the spool, leave memory for it, and come back (docs/spool.md). */
#ifndef WSONCE_SPOOLING_H
#define WSONCE_SPOOLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "event/event.h"
#include "spool/spool.h"

struct spooling;

/* Called from the loop or from a function below. */
struct spooling_callbacks {
	/* Claim ev, for which spooling_take() returned true: it is on disk, or cannot be written. */
	void (*begin)(void *arg, struct event *ev, bool is_ours);
	/* Releases the claims of n events that leave memory. */
	void (*release)(void *arg, struct event *const *evs, size_t n);
	/* Makes an event from its record and the name of its source, which lives until spooling_free(), or is NULL. */
	void (*restore)(void *arg, const struct record *r, const char *source, struct spool_segment *segment);
	/* Events that were only on disk are lost. */
	void (*on_lost)(void *arg);
	/* After spooling_leave(): all events that can be written are on disk. */
	void (*on_left)(void *arg);
	void *arg;
};

/* config and events must outlive it. */
struct spooling *spooling_new(uv_loop_t *loop, const struct config *config, struct events *events,
			      const struct spooling_callbacks *callbacks);
/* spool, which may be NULL, is closed by spooling_close. */
void spooling_use(struct spooling *s, struct spool *spool);
/* Returns NULL without --spool. */
struct spool *spooling_spool(const struct spooling *s);

/* Call for a new event. Returns true if it must not be claimed yet: begin will be called once it is on disk. */
bool spooling_take(struct spooling *s, struct event *ev, bool is_ours);
/* Call when a message from disk has become ev, or a copy of it. */
void spooling_join(struct spooling *s, struct event *ev, struct spool_segment *segment, uint64_t ordinal);
/* Call when ev has settled. */
void spooling_settle(struct spooling *s, struct event *ev);

/* Call once per turn of the loop: writes what is due, and keeps memory between a quarter and half of the budget. */
void spooling_turn(struct spooling *s);
/* Returns the milliseconds until the next call is due; -1: none. */
int64_t spooling_wait(const struct spooling *s);
void spooling_drain(struct spooling *s);

/* Call when the drain timeout is over: on_left is called when all events that can be written are on disk. Returns false
 * without a spool. */
bool spooling_leave(struct spooling *s);
/* Call when the drain is over: events that are still being read stay on disk. */
void spooling_stop(struct spooling *s);
/* Returns how many messages would be lost if the process ended now. */
size_t spooling_unsafe(const struct spooling *s);

/* Closes the spool, if there is one, and then calls done with arg. */
void spooling_close(struct spooling *s, void (*done)(void *arg), void *arg);
/* Call when no event is left. */
void spooling_free(struct spooling *s);

#endif
