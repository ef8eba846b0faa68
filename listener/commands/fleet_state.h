/* fleet_state.h: what Postgres and Redis know of the whole fleet, as one JSON object, and how bad that is. */
#ifndef WSONCE_FLEET_STATE_H
#define WSONCE_FLEET_STATE_H

#include <jansson.h>

#include "config/config.h"

enum fleet_health {
	FLEET_FINE,
	FLEET_DEGRADED, /* something is missing, and events are stored all the same */
	FLEET_DOWN,     /* no event can be stored */
};

/* Asks both servers. The object is docs/commands/status.md's, and the caller's. */
json_t *fleet_state_read(const struct config *config, enum fleet_health *health);

/* The same for people, on standard output, width columns wide. */
void fleet_state_print(const json_t *state, int width);

#endif
