/* Redis servers: one for a test alone, to be stopped, killed and frozen, or the one that the suite
 * shares; and commands to either. */
#ifndef SUPPORT_REDISD_H
#define SUPPORT_REDISD_H

struct redisd;

/* What a listener's user may do, as docs/security.md lists it. */
#define REDISD_RIGHTS \
	"+info +client|id +client|list +script|load +get +set +mget +del +incr +eval +evalsha +expire +pexpire +time " \
	"+append +getrange +zadd +zrange +zremrangebyscore +zrem +hget +hset +hgetall"

/* Its program: redis-server, or the one that WSONCE_TEST_REDIS_SERVER names. */
const char *redisd_program(void);

/* A new, empty server for this test, answering. It ends with the test. */
struct redisd *redisd_new(void);

/* The same with more options, a list that ends in NULL and lives as long as the server: --tls-port and the like. */
struct redisd *redisd_new_with(const char *const *options);

/* A database of this test's own on the suite's shared server, for commands only. The same handle at each call. */
struct redisd *redisd_shared(void);

/* A claim prefix for this test alone on the shared server, the same at each call, ending in a colon.
 * */
const char *redisd_prefix(void);

/* Its URL by TCP on loopback, redis://127.0.0.1:PORT/DATABASE, the same for all its life. Lives as long as r. */
const char *redisd_url(const struct redisd *r);

/* Its URL by unix socket, unix:///PATH, which leads to database 0. Lives as long as r. */
const char *redisd_unix_url(const struct redisd *r);

/* Its TCP port. */
int redisd_port(const struct redisd *r);

/* Start it again on the same address after redisd_stop or redisd_kill, and wait until it answers. It
 * comes back empty, unless redisd_command(r, "SAVE") was called before it ended. */
void redisd_start(struct redisd *r);

/* Stop it in order (SIGTERM) and wait for its end. */
void redisd_stop(struct redisd *r);

/* End it by SIGKILL and wait for its end. */
void redisd_kill(struct redisd *r);

/* redisd_stop and redisd_start. */
void redisd_restart(struct redisd *r);

/* Freeze it (SIGSTOP): it takes connections and never answers. */
void redisd_pause(struct redisd *r);

/* Let a frozen server go on. */
void redisd_resume(struct redisd *r);

/* Run one command, printf-like (%s and numbers; spaces in the format part the arguments, spaces in a
 * %s do not). Connects when needed, waits up to 10 s (stretched) for a server that is starting and for
 * the answer. Returns the reply as text, array elements one per line, or NULL for nil; An error reply fails the test.
 */
char *redisd_command(struct redisd *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a command that answers with a number; nil or other text fails the test. */
long redisd_long(struct redisd *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* How many keys begin with the prefix. */
long redisd_count(struct redisd *r, const char *prefix);

#endif
