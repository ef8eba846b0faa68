/* fleet_state.h: the state of the whole fleet, as Postgres and Redis know it. */
#ifndef WSONCE_FLEET_STATE_H
#define WSONCE_FLEET_STATE_H

#include <jansson.h>

#include "config/config.h"

enum fleet_health {
	FLEET_FINE,
	FLEET_DEGRADED, /* something is wrong, but events are stored */
	FLEET_DOWN,     /* no event can be stored */
};

/* Queries both servers. Returns the object that status --json prints, for the caller to free. */
json_t *fleet_state_read(const struct config *config, enum fleet_health *health);

#endif
