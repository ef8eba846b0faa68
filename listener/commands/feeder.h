/* feeder.h: feeds the messages of a command into the pipeline of a listener, with the same claims, batches and dead
 * letters, so that no event is stored twice. */
#ifndef WSONCE_FEEDER_H
#define WSONCE_FEEDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "event/event.h"
#include "pipeline/pipeline.h"

struct feeder;

struct feeder_message {
	const char *bytes;
	size_t len;
	const struct feed_event *event; /* an event that a profile has read; NULL: bytes are a message */
	const char *reason; /* if not NULL, bytes become a dead letter of the event's source again, for this reason */
	uint64_t tag;       /* passed to on_settled */
};

/* Called from feeder_run and the functions below that wait. */
struct feeder_owner {
	/* Feeds the messages, by the functions below. */
	void (*feed)(void *owner, struct feeder *f);
	/* Called once for each message, in the order in which they settle. reason is NULL except with OUTCOME_REJECTED,
	 * and also then if another listener has rejected the event. The function may be NULL. */
	void (*on_settled)(void *owner, uint64_t tag, enum outcome outcome, const char *reason);
	/* Called several times a second, for progress and checkpoints. */
	void (*on_tick)(void *owner);
	void *owner;
	const char *from; /* the source in rows of messages; events of a profile have a source */
};

/* The outcomes of the messages. */
struct feeder_count {
	uint64_t fed;
	uint64_t persisted;
	uint64_t duplicates;
	uint64_t rejected;
	uint64_t oldest;     /* tag of the oldest message without an outcome, as of the last tick; UINT64_MAX: none */
	bool is_interrupted; /* SIGINT or SIGTERM came, or the deadline of session_limit() has passed */
};

/* Opens a pipeline, waits a moment for Redis, and calls feed. Marks in Redis are not trusted: the store decides. Only
 * one pipeline is open at a time: other threads wait. *count changes as messages settle. Then waits until all have
 * settled, however long Postgres is away; after a signal, messages that have not settled within --drain-timeout count
 * as fed only. Returns 0; or -1 after printing why nothing can be stored. */
int feeder_run(const struct config *config, const struct feeder_owner *owner, struct feeder_count *count);

/* Waits until there is room for a message. Returns false if no more should be fed: after SIGINT or SIGTERM, or if
 * nothing can be stored. */
bool feeder_has_room(struct feeder *f);
/* Waits for ms milliseconds; 0: only looks for signals. Returns as above. */
bool feeder_pause(struct feeder *f, int64_t ms);

/* True if an event with this id has no outcome yet. A message that is fed meanwhile would share its outcome. */
bool feeder_has(struct feeder *f, struct slice id);
/* Returns a copy of the name of a source, which lives as long as f. */
const char *feeder_keep_name(struct feeder *f, const char *name);
/* Takes a message, which is copied. */
void feeder_feed(struct feeder *f, const struct feeder_message *m);

#endif
