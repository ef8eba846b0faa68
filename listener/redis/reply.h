/* reply.h: the memory of Redis's answers. */
#ifndef WSONCE_REPLY_H
#define WSONCE_REPLY_H

#include <hiredis/hiredis.h>

#include "base/arena.h"

/* The answers that reader makes from now on lie in a: each until arena_clear, which is to be called as soon
 * as it has been used, for parts of the next one may be there from the time that the reader is asked for it.
 * They are struct redisReply, and freeReplyObject is not for them. */
void reply_use_arena(redisReader *reader, struct arena *a);

#endif
