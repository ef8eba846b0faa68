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

/* The channel's name: this, then the claim prefix. */
#define DONE_CHANNEL_PREFIX "wsonce:done:"

struct done_channel;

/* A committed event. */
struct done {
	struct id_hash hash;
	int64_t came_ms; /* Unix time when the listener that stored it received it; 0: unknown */
};

/* Called from the loop with n events that another listener has committed in the current epoch. The callee moves those
 * of which it has no copy to the front and returns their number: they are remembered for some seconds. */
typedef size_t done_cb(void *arg, struct done *events, size_t n);

/* Subscribes on its own connection, unless Redis is "none". config must outlive the channel. */
struct done_channel *done_channel_open(uv_loop_t *loop, const struct config *config, done_cb *on_done, void *arg);

/* Sets the connection to publish on; NULL while there is none. */
void done_channel_set_redis(struct done_channel *c, struct redis *redis);

/* Sets the database ("" if unknown) and its epoch (0 if unknown). Forgets the events of any other. */
void done_channel_set_place(struct done_channel *c, const char *database, uint32_t epoch);

/* Returns the key of the hashes on the channel; NULL while database or epoch is unknown. */
const struct id_hash_key *done_channel_key(const struct done_channel *c);

/* True if this listener hears the channel now. */
bool done_channel_is_heard(const struct done_channel *c);
/* True if Redis is ready but refuses SUBSCRIBE or PUBLISH. */
bool done_channel_is_refused(const struct done_channel *c);

/* Adds a committed event to the next message. */
void done_channel_add(struct done_channel *c, const struct done *event);

/* Publishes the added events, if any. Call it after each batch. */
void done_channel_publish(struct done_channel *c);

/* Returns the committed event with this hash, or NULL. It is valid until the next call of any function here. */
const struct done *done_channel_find(const struct done_channel *c, const struct id_hash *hash);

/* done is called from the loop once c is freed. */
void done_channel_close(struct done_channel *c, void (*done)(void *arg), void *arg);

#endif
