/* age_limit.h: which events are too old to store, by their own time. Reads no clock. */
#ifndef WSONCE_AGE_LIMIT_H
#define WSONCE_AGE_LIMIT_H

#include <stdint.h>

#include "config/config.h"
#include "event/envelope.h"
#include "base/timestamp.h"

/* How far an event's time may be ahead of our clock. Such an event becomes too old this much later. */
#define STALE_AHEAD_S 3600

struct age_limit {
	int64_t max_age_us;       /* 0: no limit */
	enum timestamp_unit unit; /* --time-unit */
	char too_old[300];        /* the reasons; equal for all events, because dead letters are grouped by reason */
	char missing[300];
	char unreadable[300];
	char ahead[300];
};

/* Copies what it needs from config. */
void age_limit_init(struct age_limit *s, const struct config *config);

/* The same for events of profiles. Each profile has its own time unit. */
void age_limit_init_feeds(struct age_limit *s, const struct config *config);

/* Returns NULL to accept an event with this time (time.at is NULL if it has none), or the reason to refuse it: one
 * sentence that lives as long as s. now_us is in microseconds since 1970. */
const char *age_limit_reason(const struct age_limit *s, struct slice time, enum timestamp_unit unit, int64_t now_us);

#endif
