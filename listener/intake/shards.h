/* shards.h: a source whose list, such as symbols, is divided among several connections, NAME/1, NAME/2, ... */
#ifndef WSONCE_SHARDS_H
#define WSONCE_SHARDS_H

#include "intake/profiled.h"
#include "net/request.h"

struct shards;

/* Reads the list of a profile with `shard`, and makes a profile for each possible connection. Returns NULL with a
 * sentence in error if the list cannot be read. requests and p must outlive the result. on_change is called from the
 * loop when the set of connections that have items has changed. has_readers: each connection is that of some listeners
 * only, so a change waits for the others. */
struct shards *shards_new(uv_loop_t *loop, struct requests *requests, const struct profile *p, bool has_readers,
			  void (*on_change)(void *arg), void *arg, char *error, size_t size);
struct profile *shards_profile(const struct shards *s, size_t i);

/* Starts the sources of its profiles, which begin with number first. */
void shards_start(struct shards *s, const struct profiles *all, size_t first);

/* Reads the list again: from the profile, which may have changed, from its file, or by HTTP. New connections are ready
 * before the old ones close. A list that cannot be read or is empty changes nothing. */
void shards_reload(struct shards *s);

/* Returns why there is no list yet, or why the newest is not in use; "" if it is. */
const char *shards_trouble(const struct shards *s);

void shards_close(struct shards *s);
/* Call after the loop has ended. NULL is allowed. */
void shards_free(struct shards *s);

#endif
