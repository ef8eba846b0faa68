/* fleets.h: who hears the same source as an event's: one fleet for all sources, or, with --readers, one for each. */
#ifndef WSONCE_FLEETS_H
#define WSONCE_FLEETS_H

#include "road/event.h"
#include "road/fleet.h"

struct fleets;

/* As fleet_open. */
struct fleets *fleets_open(uv_loop_t *loop, const struct config *config, const char *name);

/* The fleet of those who hear this source, which is known by its address. */
struct fleet *fleets_of(struct fleets *all, const char *source);

/* The most others that are known to be alive in one of them. */
size_t fleets_size(const struct fleets *all);

/* The instance with this name is dead. */
void fleets_suspect(struct fleets *all, const char *name, size_t len);

/* As those of fleet.h, for all. */
void fleets_set_redis(struct fleets *all, struct redis *redis);
void fleets_rest(struct fleets *all, bool is_resting);
void fleets_leave(struct fleets *all);
void fleets_close(struct fleets *all, void (*done)(void *arg), void *arg);

#endif
