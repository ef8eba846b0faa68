/* redis.h: what redis.c tells the checker, and what is left of a history. */
#ifndef WSONCE_SIM_REDIS_H
#define WSONCE_SIM_REDIS_H

#include <stdbool.h>
#include <stddef.h>

/* A value was written under an id's key: a claim, or a mark. */
void checker_key(int process, const char *id, size_t id_len, const char *value, size_t len, bool was_there);
/* This value was named in a script that renews or gives back claims. */
void checker_own(int process, const char *value, size_t len);
/* This claim was taken over from its owner as from a dead one. A text. */
void checker_inherited(const char *value);
/* A value ran out at this moment, sim_now() or before. */
void checker_lapsed(const char *value, int64_t at);
/* DEL without a comparison. Both are texts. */
void checker_deleted(int process, const char *key, const char *value);

/* hiredis's readers are its own memory. */
void redis_sim_end(void);

#endif
