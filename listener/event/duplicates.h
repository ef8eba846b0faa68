/* duplicates.h: how long after the first copy of an event this process received the others. */
#ifndef WSONCE_DUPLICATES_H
#define WSONCE_DUPLICATES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Histogram buckets: below 1 ms, then one per power of two; the last is open (over 17 years). */
#define DUPLICATES_DELAYS 41

/* A copy arrived delay_ms after the original was claimed or committed. */
void duplicates_seen(const char *id, size_t len, int64_t delay_ms);

/* At now_ms (loop clock) a copy arrived of an event that Postgres already had. Postgres computes the delay. */
void duplicates_late(const char *id, size_t len, int64_t now_ms);

/* Writes the hash of an id as in wsonce_duplicates.keys. */
void duplicates_key(const char *id, size_t len, char key[17]);

/* Adds what was counted since the last duplicates_clear to object, for sql/queries/checkin.sql. */
void duplicates_describe(json_t *object, int64_t now_ms);
void duplicates_clear(void);

#endif
