/* redis.h: what redis.c tells the checker. */
#ifndef WSONCE_SIM_REDIS_H
#define WSONCE_SIM_REDIS_H

#include <stdbool.h>
#include <stddef.h>

/* A value was written under an id's key: a claim, or a mark. */
void checker_key(int process, const char *id, size_t id_len, const char *value, size_t len, bool was_there);
/* A script that renews or releases claims named this value. */
void checker_own(int process, const char *value, size_t len);
/* This claim was taken over from an owner believed dead. value is a C string. */
void checker_inherited(const char *value);
/* A value expired at this time, sim_now() or earlier. */
void checker_lapsed(const char *value, int64_t at);
/* DEL without comparing the value. Both are C strings. */
void checker_deleted(int process, const char *key, const char *value);

/* Frees the readers of hiredis. */
void redis_sim_end(void);

#endif
