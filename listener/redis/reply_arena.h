/* reply_arena.h: memory for the answers of Redis. */
#ifndef WSONCE_REPLY_ARENA_H
#define WSONCE_REPLY_ARENA_H

#include <hiredis/hiredis.h>

#include "base/arena.h"
#include "redis/reply.h"

#define REPLY_BYTES ((size_t)16 << 20) /* limit for one answer; ours are below 1 MiB */

/* Makes reader allocate its answers, as struct redis_reply, in a. Call arena_clear as soon as an answer has been used
 * and before asking reader for the next one, of which it may then allocate parts. An answer that needs more than
 * REPLY_BYTES fails with REDIS_ERR_OOM. */
void reply_use_arena(redisReader *reader, struct arena *a);

#endif
