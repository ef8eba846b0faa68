/* checkin.h: what a listener reports to the database once a minute, and what it reads from the answer. */
#ifndef WSONCE_CHECKIN_H
#define WSONCE_CHECKIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "event/line_counts.h"

#define CHECKIN_PERIOD_MS 60000

/* wsonce purge keeps rows this much longer than --max-age: a copy received in time may wait for an unreachable Postgres
 * for a day, and clocks may differ by an hour. */
#define CHECKIN_MARGIN_S 86400

struct checkin {
	const struct config *config;
	char listener[300]; /* instance id and a random number; unique in the fleet */
	int64_t wait_ms;    /* when it checks in, after the end of a minute */
	struct line_counts lines;
	uint64_t told_events; /* counters.persisted at the last report */
	/* Returns the rest of the report; checkin_write frees it. NULL if there is none. */
	json_t *(*describe)(void *arg);
	void *arg;
};

void checkin_init(struct checkin *n, const struct config *config);

/* Returns the ms until the next check-in: about CHECKIN_PERIOD_MS at most. It is a few seconds after the end of a
 * minute, when most copies have settled, so that rows of line_minutes are written once. */
int64_t checkin_wait_ms(const struct checkin *n);

/* Returns the text for sql/queries/checkin.sql, on the heap, and resets the counts: if the text does not arrive, the
 * statistics lack that period. now_ms is the loop clock. */
char *checkin_write(struct checkin *n, bool is_leaving, int64_t now_ms);

/* Reads the answer of sql/queries/checkin.sql, NULL if it had no row. Returns NULL, or why this listener must not use
 * this database: one sentence that lives until the next call. */
const char *checkin_read(const struct checkin *n, const char *answer);

/* True if --max-age (0: none) is short enough for a database in which rows older than rows_deleted_s were deleted. */
bool checkin_is_guarded(int64_t max_age_s, int64_t rows_deleted_s);

#endif
