/* The connection to Redis, played in one process: commands are kept as texts here, and the test answers them, the
 * oldest first. The linker puts it in the place of redis/connection.c (--wrap), for tests that call
 * played_redis_start(). */
#ifndef SUPPORT_PLAYED_REDIS_H
#define SUPPORT_PLAYED_REDIS_H

#include "redis/connection.h"
#include "redis/reply.h"

void played_redis_start(void);
/* From now on the beats of road/owners.c and the questions for the time are seen, too, and the connection is this one.
 */
void played_redis_show_beats(const char *client);
void played_redis_set_state(enum redis_state state);

/* The oldest command that nobody has looked at, "" if there is none: its words with blanks between them, a script's
 * text as its name, this process's own values as "me", and the times of marks as T. */
const char *played_redis_next(void);
/* Answers the oldest command that is not answered; NULL: the answer is lost. */
void played_redis_answer(const struct redis_reply *reply);
/* The last value of the process that was sent. */
const char *played_redis_own(void);
/* So many times the scripts were loaded again. */
int played_redis_loads(void);

#endif
