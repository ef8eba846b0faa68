/* redis_query.h: questions to Redis about events, for commands, which wait for the answer. */
#ifndef WSONCE_REDIS_QUERY_H
#define WSONCE_REDIS_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "road/envelope.h"

struct redis_query;

/* Connects, waiting at most --redis-timeout. Returns NULL with --redis none, or if it cannot connect, which is logged.
 */
struct redis_query *redis_query_open(const struct config *config);
void redis_query_close(struct redis_query *m);

/* What Redis answered, or why there was no answer, when the last call on this thread failed. Valid until the next. */
const char *redis_query_failure(void);

/* Which of n events have been claimed? Returns 0, or -1 if Redis does not answer or refuses. */
int redis_query_find_claimed(struct redis_query *m, const struct slice *ids, size_t n, bool *is_claimed);

/* Reads the key of an event: a claim or a mark (road/mark.h), "" if there is none, cut to fit; and its time to live.
 * Returns as above. */
int redis_query_read(struct redis_query *m, struct slice id, char *value, size_t size, int64_t *ttl_ms);

/* Deletes the dead marks of n events. Claims and done marks stay. m may be NULL. Returns as above. */
int redis_query_forget(struct redis_query *m, const struct slice *ids, size_t n);

/* Runs a command of n words. text gets an answer that is text, cut to fit; *number one that is a number. Returns as
 * above. */
int redis_query_command(struct redis_query *m, const char *const *words, size_t n, char *text, size_t size,
			int64_t *number);

/* Measures how many bytes of Redis's memory a done mark takes. Returns 0 if there is none or Redis does not answer. m
 * may be NULL. */
int64_t redis_query_measure(struct redis_query *m);

#endif
