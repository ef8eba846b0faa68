/* fleet.h: which instances hear the same feeds, and which of them leads a source. */
#ifndef WSONCE_FLEET_H
#define WSONCE_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "redis/connection.h"

struct fleet;

/* What names a source to the fleet: the same in each process, whoever the feed knows it as. name: a profile's, or "".
 */
uint64_t fleet_source_id(const char *url, const char *name);

/* name is this instance's, never another's, and is copied. source: those who hear this one, from a message's source or
 * sender as events have it; NULL: who hears what config says. */
struct fleet *fleet_open(uv_loop_t *loop, const struct config *config, const char *source, const char *name);

/* Does another instance lead the source, so that it stores the source's events first? All instances that know of each
 * other agree on the leader. It is no promise: the leader may be dead, or not have received the event. */
bool fleet_has_other_leader(const struct fleet *f, const char *source);

/* The leader of the source does not store its events: another one leads, until this one's heartbeat has expired. */
void fleet_suspect_leader(struct fleet *f, const char *source);
/* The same of the instance with this name. */
void fleet_suspect(struct fleet *f, const char *name, size_t len);

/* How many others are known to be alive; while Redis is away, were when it went. */
size_t fleet_size(const struct fleet *f);

/* A message of a feed has come: only who hears something says that it is there. */
void fleet_hear(struct fleet *f);

/* Redis is ready; or with NULL, gone: then those who were alive before lead on. */
void fleet_set_redis(struct fleet *f, struct redis *redis);

/* Tells the others that this instance takes no events for now; or, when it hears one again, that it does. */
void fleet_rest(struct fleet *f, bool is_resting);

/* Tells the others that this instance takes no more events. */
void fleet_leave(struct fleet *f);

/* done is called from the loop when nothing of f is left. */
void fleet_close(struct fleet *f, void (*done)(void *arg), void *arg);

#endif
