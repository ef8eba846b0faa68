/* checkin.h: what a listener tells the database of itself once a minute, and what it learns by that. */
#ifndef WSONCE_CHECKIN_H
#define WSONCE_CHECKIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define CHECKIN_PERIOD_MS 60000

/* Rows are deleted only when they are so much older than --max-age. A copy that was taken in time may
 * wait for a day for a Postgres that is away, and clocks may be an hour apart. */
#define CHECKIN_MARGIN_S 86400

struct checkin {
	const struct config *config;
	char listener[300];   /* instance and boot nonce: unique in the fleet */
	uint64_t told_events; /* of counters.persisted */
	/* What else the listener tells of itself, an object that checkin_write takes over; NULL: nothing. */
	json_t *(*describe)(void *arg);
	void *arg;
};

void checkin_init(struct checkin *n, const struct config *config);

/* The text for sql/queries/checkin.sql, on the heap. What was counted is told once: if the
 * text does not arrive, the statistics of one period miss it. now_ms is the loop clock. */
char *checkin_write(struct checkin *n, bool is_leaving, int64_t now_ms);

/* Takes sql/queries/checkin.sql's answer, NULL if it had no row. Returns NULL; or why this listener cannot work
 * with this database, one sentence that lives until the next call. */
const char *checkin_read(const struct checkin *n, const char *answer);

/* Whether a listener with this --max-age (0: none) may work where rows of this age were deleted. */
bool checkin_is_guarded(int64_t max_age_s, int64_t rows_deleted_s);

#endif
