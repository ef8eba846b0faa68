/* done_log.h: what a large fleet has committed of late, as a log in Redis that each listener reads, in the place of
 * questions for single events. */
#ifndef WSONCE_DONE_LOG_H
#define WSONCE_DONE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis/connection.h"

struct done_log;

/* prefix, of the claims, and secret, NULL for none, must outlive the log. */
struct done_log *done_log_open(uv_loop_t *loop, const char *prefix, const char *secret);

/* Redis is ready; or with NULL, gone: what was read stays known. */
void done_log_set_redis(struct done_log *l, struct redis *redis);

/* The database that the log is about, "" if it is not known, and its epoch, 0 likewise. What was read of another is
 * forgotten. */
void done_log_set_place(struct done_log *l, const char *database, uint32_t epoch);

/* How many listeners there are, ours included, as far as is known: a small fleet keeps no log. */
void done_log_set_fleet(struct done_log *l, size_t listeners);

/* An event is left to another listener: the log is read for a while, if there is one. Returns whether there is. */
bool done_log_expect(struct done_log *l);

/* The event with this id is committed, in the epoch that was set last: tells the others. */
void done_log_add(struct done_log *l, const char *id, size_t len);

/* The same without telling anybody: another listener has committed it, as the database itself has said. */
void done_log_learn(struct done_log *l, const char *id, size_t len);

/* Is the event with this id known to be committed, in the epoch that was set last? false: nobody knows. */
bool done_log_has(const struct done_log *l, const char *id, size_t len);

/* done is called from the loop when nothing of l is left. */
void done_log_close(struct done_log *l, void (*done)(void *arg), void *arg);

#endif
