/* feeder.h: messages that a command has, into the same pipeline that a listener's sockets feed: claims,
 * batches and dead letters are the same, so nothing can double. */
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
	FEEDER_MESSAGE, /* here it is */
	FEEDER_LATER,   /* not now: ask again after wait_ms */
	FEEDER_END,     /* there are no more */
	FEEDER_FAILED,  /* nor will there be, and that is a failure; it has been told */
};

struct feeder_message {
	const char *bytes; /* live until the next pull */
	size_t len;
	const struct feed_event *event; /* a profile has read it; NULL: bytes are a message */
	const uint8_t *digest;          /* SHA-256 of the whole, if it was over --max-message and this is its head */
	uint64_t total;                 /* bytes of the whole then */
	uint64_t tag;                   /* the owner's, given back with the outcome */
	int wait_ms;                    /* with FEEDER_LATER */
};

/* All are called from feeder_run, with owner. */
struct feeder_owner {
	enum feeder_pull (*pull)(void *owner, struct feeder *f, struct feeder_message *m);
	/* Once for each message, in the order in which they settle. reason is NULL but for
	 * OUTCOME_REJECTED, and there too if another listener has rejected it. */
	void (*on_settled)(void *owner, uint64_t tag, enum outcome outcome, const char *reason);
	/* Some times a second: for progress and checkpoints. */
	void (*on_tick)(void *owner);
	void *owner;
	const char *from; /* the source that rows get, but for those of a profile's events */
};

/* What became of the messages. */
struct feeder_count {
	uint64_t fed;
	uint64_t persisted;
	uint64_t duplicates;
	uint64_t rejected;
	bool is_interrupted; /* by SIGINT or SIGTERM */
	bool has_failed;     /* there was more to feed */
};

/* Feeds everything and waits until it has settled, however long Postgres is away. At the first SIGINT
 * or SIGTERM it stops pulling and gives what is under way --drain-timeout; what has not settled then is
 * in fed only. Returns 0; or -1 after saying why if nothing can be stored. Only one runs at a time: another thread
 * waits. */
int feeder_run(const struct config *config, const struct feeder_owner *owner, struct feeder_count *count);

/* Is an event of this id under way? From pull: a message that must have an outcome of its own is not
 * fed while another of its id is, whose outcome it would share. */
bool feeder_has(struct feeder *f, struct slice id);

/* Has Redis answered everything that the pipeline has sent, the marks of settled events too? From pull. */
bool feeder_is_quiet(const struct feeder *f);

#endif
