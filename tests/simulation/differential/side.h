/* side.h: what postgres.c and redis.c ask of the side that they run on: a real server, or the played one. */
#ifndef WSONCE_DIFFERENTIAL_SIDE_H
#define WSONCE_DIFFERENTIAL_SIDE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An empty database with our schema. */
void side_open(void);
/* A connection that is up. */
PGconn *side_connect(void);
/* A moment passes, in which something may arrive on conn. */
void side_turn(PGconn *conn);
/* Does its statement wait for a lock? */
bool side_is_blocked(PGconn *conn);
void side_cancel(PGconn *conn);
void side_terminate(PGconn *conn);

/* Another program's transaction, one at a time. */
void side_hold_id(const char *id);
void side_hold_table(void);
void side_end_hold(bool is_commit);

/* where is events, dead_letters, handler or commit; sqlstate NULL: the row is passed over; slow: it
 * takes very long. Of commit, id is not used.
 */
void side_set_trigger(const char *where, const char *id, const char *sqlstate);
void side_clear_triggers(void);
void side_set_read_only(bool is_on);
void side_drop_key(void);
void side_restore_key(void);
void side_forget_epoch(void);
/* Lives until the next call; "" if there is none. */
const char *side_epoch(void);

/* What is stored is gone. */
void side_empty(void);
/* The rows of all tables, as lines. */
void side_list(void (*each)(const char *line));

/* --- Redis --- */

struct redisReply;

/* The answer to a command in RESP, by hiredis's reader; to be freed. */
struct redisReply *side_ask(const char *command, size_t len);
/* The same by a second connection; command NULL: what comes to it without one. */
struct redisReply *side_hear(const char *command, size_t len);
void side_pass(int seconds);
/* From now on the server refuses so: OOM, READONLY, or NULL: not at all. */
void side_refuse(const char *why);

/* --- of the played side alone --- */

void sim_pass(int64_t us);

#endif
