/* redis_query.h: what Redis says of events, for a command that waits for the answer. */
#ifndef WSONCE_REDIS_QUERY_H
#define WSONCE_REDIS_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "road/envelope.h"

struct redis_query;

/* Connects, and waits for that for up to --redis-timeout. NULL if there is no Redis: --redis none, or
 * it cannot be reached, which is logged. */
struct redis_query *redis_query_open(const struct config *config);
void redis_query_close(struct redis_query *m);

/* Which of n events is somebody at work on, as far as Redis knows? Returns 0; or -1 if it does not answer. */
int redis_query_find_claimed(struct redis_query *m, const struct slice *ids, size_t n, bool *is_claimed);

/* What the key of an event says: a claim or a mark (road/mark.h), "" if there is none, cut off to fit; and for how long
 * it says so. Returns as above. */
int redis_query_read(struct redis_query *m, struct slice id, char *value, size_t size, int64_t *ttl_ms);

/* Deletes dead marks of n events, with_done also done marks: those that the caller knows to be no
 * longer true. Claims stay. m may be NULL. Returns as above. */
int redis_query_forget(struct redis_query *m, const struct slice *ids, size_t n, bool with_done);

/* Runs a command of n words. text gets its answer if that is text, cut off to fit, *number if it is a number. Returns
 * as above. */
int redis_query_command(struct redis_query *m, const char *const *words, size_t n, char *text, size_t size,
			int64_t *number);

/* Bytes of Redis's memory that a done mark takes, by those that are there. 0: there are none, or Redis
 * does not answer. m may be NULL. */
int64_t redis_query_measure(struct redis_query *m);

#endif
