/* done_channel.h: a Redis channel on which each listener of a fleet tells the others what it has committed. */
#ifndef WSONCE_DONE_CHANNEL_H
#define WSONCE_DONE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "redis/connection.h"
#include "event/id_hash.h"

/* The beginning of the channel's name; the claim prefix follows. */
#define DONE_CHANNEL_PREFIX "wsonce:done:"

struct done_channel;

/* A committed event. */
struct done {
	struct id_hash hash;
	int64_t came_ms; /* since 1970, when the listener that stored it received it; 0 if unknown */
};

/* Called from the loop with n events that another listener has committed in the current epoch. The callee moves those
 * that it had no use for to the front and returns their number: they stay known for some seconds. */
typedef size_t done_cb(void *arg, struct done *events, size_t n);

/* Subscribes with a connection of its own, unless Redis is "none". config must outlive the channel. */
struct done_channel *done_channel_open(uv_loop_t *loop, const struct config *config, done_cb *on_done, void *arg);

/* Sets the connection to publish with; NULL while there is none. */
void done_channel_set_redis(struct done_channel *c, struct redis *redis);

/* Sets the database ("" if unknown) and its epoch (0 if unknown). What was heard of another one is forgotten. */
void done_channel_set_place(struct done_channel *c, const char *database, uint32_t epoch);

/* Returns the key of the hashes on the channel, which depends on the place; NULL while that is unknown. */
const struct id_hash_key *done_channel_key(const struct done_channel *c);

/* Does this listener hear the channel now? */
bool done_channel_is_heard(const struct done_channel *c);
/* Does a Redis that is there keep this listener from hearing it, or refuse what is published? */
bool done_channel_is_refused(const struct done_channel *c);

/* Adds a committed event to the next message. */
void done_channel_add(struct done_channel *c, const struct done *event);

/* Publishes the events that were added, if any: call it after each batch. */
void done_channel_publish(struct done_channel *c);

/* Remembers a committed event that something else than the channel has told of. */
void done_channel_learn(struct done_channel *c, const struct done *event);

/* Returns the committed event with this hash, valid until the next call of any function here, or NULL if none is
 * known. */
const struct done *done_channel_find(const struct done_channel *c, const struct id_hash *hash);

/* done is called from the loop when nothing of c is left. */
void done_channel_close(struct done_channel *c, void (*done)(void *arg), void *arg);

#endif
