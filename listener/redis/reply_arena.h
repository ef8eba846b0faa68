/* reply_arena.h: the memory of Redis's answers. */
#ifndef WSONCE_REPLY_ARENA_H
#define WSONCE_REPLY_ARENA_H

#include <hiredis/hiredis.h>

#include "base/arena.h"
#include "redis/reply.h"

#define REPLY_BYTES ((size_t)16 << 20) /* of one answer; ours are below 1 MiB */

/* The answers that reader makes from now on lie in a: each until arena_clear, which is to be called as soon
 * as it has been used, for parts of the next one may be there from the time that the reader is asked for it.
 * They are struct redis_reply. An answer that would take more than REPLY_BYTES is the reader's REDIS_ERR_OOM. */
void reply_use_arena(redisReader *reader, struct arena *a);

#endif
