/* feeder.h: feeds the messages of a command into the pipeline of a listener, with the same claims, batches and dead
 * letters, so that no event is stored twice. */
#ifndef WSONCE_FEEDER_H
#define WSONCE_FEEDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "road/event.h"
#include "road/pipeline.h"

struct feeder;

enum feeder_pull {
	FEEDER_MESSAGE, /* m is filled in */
	FEEDER_LATER,   /* none now: pull again after wait_ms */
	FEEDER_END,     /* there are no more */
	FEEDER_FAILED,  /* the rest cannot be read, and why was printed */
};

struct feeder_message {
	const char *bytes; /* live until the next pull */
	size_t len;
	const struct feed_event *event; /* what a profile has read; NULL: bytes are a message */
	const uint8_t *digest;          /* SHA-256 of the message if it is over --max-message and bytes are its head */
	uint64_t total;                 /* length of the message then */
	uint64_t tag;                   /* the owner's, passed to on_settled */
	int wait_ms;                    /* with FEEDER_LATER */
};

/* All are called from feeder_run, with owner. */
struct feeder_owner {
	enum feeder_pull (*pull)(void *owner, struct feeder *f, struct feeder_message *m);
	/* Once for each message, in the order in which they settle. reason is NULL except with OUTCOME_REJECTED, and
	 * also then if another listener has rejected the event. The function may be NULL. */
	void (*on_settled)(void *owner, uint64_t tag, enum outcome outcome, const char *reason);
	/* Some times a second: for progress and checkpoints. */
	void (*on_tick)(void *owner);
	void *owner;
	const char *from; /* the source in rows of messages; events of a profile have their own */
};

/* What became of the messages. */
struct feeder_count {
	uint64_t fed;
	uint64_t persisted;
	uint64_t duplicates;
	uint64_t rejected;
	uint64_t oldest;     /* tag of the oldest message without an outcome, as of the last tick; UINT64_MAX: none */
	bool is_interrupted; /* by SIGINT or SIGTERM */
	bool has_failed;     /* the rest could not be read */
};

/* Feeds all messages and waits until they have settled, however long Postgres is away. At the first SIGINT or SIGTERM
 * it stops pulling, and messages that have not settled after --drain-timeout count as fed only. Returns 0; or -1 after
 * printing why nothing can be stored. Marks in Redis are not trusted: the store decides. Only one runs at a time: other
 * threads wait. */
int feeder_run(const struct config *config, const struct feeder_owner *owner, struct feeder_count *count);

/* Does an event with this id have no outcome yet? A message that is fed meanwhile would share its outcome. Call it from
 * pull. */
bool feeder_has(struct feeder *f, struct slice id);

#endif
