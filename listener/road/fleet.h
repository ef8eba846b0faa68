/* fleet.h: which instances hear the same feeds, and which of them is preferred for an event. */
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

/* Is an instance other than this one preferred for the event with this id? All instances that know of
 * each other say the same. It is no promise: the other may be dead, or not have received the event. */
bool fleet_prefers_other(const struct fleet *f, const char *id, size_t len);

/* How many others of those that were alive when Redis went away come before this one for the event with this id. No
 * promise, either: they may be dead by now. */
size_t fleet_rank(const struct fleet *f, const char *id, size_t len);

/* The same of any listeners, by the hashes of their names: how many of n others come before the one with this seed. */
size_t fleet_rank_among(const uint64_t *others, size_t n, uint64_t seed, const char *id, size_t len);

/* How many others are known to be alive; while Redis is away, were when it went. */
size_t fleet_size(const struct fleet *f);

/* A message of a feed has come: only who hears something says that it is there. */
void fleet_hear(struct fleet *f);

/* Redis is ready; or with NULL, gone: then nobody is known any more. */
void fleet_set_redis(struct fleet *f, struct redis *redis);

/* Tells the others that this instance takes no events for now; or, when it hears one again, that it does. */
void fleet_rest(struct fleet *f, bool is_resting);

/* Tells the others that this instance takes no more events. */
void fleet_leave(struct fleet *f);

/* done is called from the loop when nothing of f is left. */
void fleet_close(struct fleet *f, void (*done)(void *arg), void *arg);

#endif
