/* duplicates.h: how long after the first copy further copies of events came to this process. */
#ifndef WSONCE_DUPLICATES_H
#define WSONCE_DUPLICATES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Delays of less than 1 ms, then from each power of two ms to the next; the last has no end (17 years). */
#define DUPLICATES_DELAYS 41

/* A copy of an event came, so long after the claim or the commit of the original. */
void duplicates_seen(int64_t delay_ms);

/* A copy came that only the unique key found: how old the row is, Postgres knows. now_ms is the loop
 * clock. */
void duplicates_late(const char *id, size_t len, int64_t now_ms);

/* Puts what came since the last duplicates_clear into an object, for sql/queries/checkin.sql. */
void duplicates_describe(json_t *object, int64_t now_ms);
void duplicates_clear(void);

#endif
