/* A fake of redis/connection.c: keeps commands as text, and the test answers them, oldest first. The linker
 * substitutes it (--wrap) in tests that call played_redis_start(). */
#ifndef SUPPORT_PLAYED_REDIS_H
#define SUPPORT_PLAYED_REDIS_H

#include "redis/connection.h"
#include "redis/reply.h"

void played_redis_start(void);
/* From now on also shows the beats of fleet/presence.c and time requests; the connection has this client id. */
void played_redis_show_beats(const char *client);
void played_redis_set_state(enum redis_state state);
/* The connection for subscriptions is ready. It is not the one for commands, and its commands are not shown. */
void played_redis_subscribe(bool is_refused);
/* A message on the channel. */
void played_redis_say(const char *bytes, size_t len);

/* The oldest command not returned yet, or "": its words separated by blanks, a script as its name, this process's own
 * values as "me", and the times of marks as T. */
const char *played_redis_next(void);
/* Answers the oldest unanswered command; NULL if the answer is lost. */
void played_redis_answer(const struct redis_reply *reply);
/* The last own claim value that was sent. */
const char *played_redis_own(void);

#endif
