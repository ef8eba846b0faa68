/* age_limit.h: which events are too old to be taken, by their own time. No clock is read here. */
#ifndef WSONCE_AGE_LIMIT_H
#define WSONCE_AGE_LIMIT_H

#include <stdint.h>

#include "config/config.h"
#include "road/envelope.h"
#include "base/timestamp.h"

/* How far an event's time may be ahead of the clock: such an event gets old this much later. */
#define STALE_AHEAD_S 3600

struct age_limit {
	int64_t max_age_us;       /* 0: events of any age are taken */
	enum timestamp_unit unit; /* of the settings */
	char too_old[300];        /* the reasons, the same for all events: dead letters are grouped by them */
	char missing[300];
	char unreadable[300];
	char ahead[300];
};

/* Copies what it needs of config. */
void age_limit_init(struct age_limit *s, const struct config *config);

/* The same for events of profiles, each of which has a unit of its own. */
void age_limit_init_feeds(struct age_limit *s, const struct config *config);

/* NULL if an event with this time (at NULL: none) is to be taken at now_us, microseconds since 1970;
 * or why it is not, one sentence that lives as long as s. */
const char *age_limit_reason(const struct age_limit *s, struct slice time, enum timestamp_unit unit, int64_t now_us);

#endif
