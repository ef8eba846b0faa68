/* redis_query.h: queries to Redis for commands. Every call waits for the answer. */
#ifndef WSONCE_REDIS_QUERY_H
#define WSONCE_REDIS_QUERY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "event/envelope.h"

struct redis_query;

/* Connects, waiting at most --redis-timeout. Returns NULL with --redis none, or after logging why it cannot connect. */
struct redis_query *redis_query_open(const struct config *config);
void redis_query_close(struct redis_query *m);

/* Returns why the last call on this thread failed: Redis's error, or why it gave no answer; until the next call. */
const char *redis_query_failure(void);

/* Finds out which of n events are claimed. Returns 0, or -1 if Redis does not answer or refuses. */
int redis_query_find_claimed(struct redis_query *m, const struct slice *ids, size_t n, bool *is_claimed);

/* Reads the key of an event, cut to size, and its time to live: a claim or a mark (claim/mark.h), "" if there is none.
 * Returns as above. */
int redis_query_read(struct redis_query *m, struct slice id, char *value, size_t size, int64_t *ttl_ms);

/* Deletes the dead marks of n events of these consumers. Claims and done marks stay. m may be NULL. Returns as above.
 */
int redis_query_forget(struct redis_query *m, const char *const *consumers, const struct slice *ids, size_t n);

/* Runs a command of n words. text gets a text answer, cut to size. Returns as above. */
int redis_query_command(struct redis_query *m, const char *const *words, size_t n, char *text, size_t size);

/* Returns the fields of INFO as an object of strings, for the caller to free; {} if the user may not run INFO. */
json_t *redis_query_info(struct redis_query *m);

#endif
