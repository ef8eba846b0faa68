/* Redis servers: one for a single test, which can be stopped, killed and frozen, or the one that the suite shares; and
 * commands to either. */
#ifndef SUPPORT_REDISD_H
#define SUPPORT_REDISD_H

struct redisd;

/* The rights of a listener's user, as in docs/security.md. */
#define REDISD_RIGHTS \
	"+info +client|id +client|list +get +set +del +eval +expire +pexpire +time " \
	"+publish +subscribe +ping &wsonce:* +hget +hset +hgetall"

/* The server's program: redis-server, or WSONCE_TEST_REDIS_SERVER. */
const char *redisd_program(void);

/* A new, empty server for this test, ready for commands. It ends with the test. */
struct redisd *redisd_new(void);

/* The same with more options, such as --tls-port. The list ends in NULL and lives as long as the server. */
struct redisd *redisd_new_with(const char *const *options);

/* A database of this test's own on the suite's shared server, for commands only. The same handle at each call. */
struct redisd *redisd_shared(void);

/* A claim prefix unique to this test on the shared server, the same at each call, ending in a colon. */
const char *redisd_prefix(void);

/* Its URL by TCP on loopback, redis://127.0.0.1:PORT/DATABASE, which never changes. Lives as long as r. */
const char *redisd_url(const struct redisd *r);

/* Its URL by unix socket, unix:///PATH, for database 0. Lives as long as r. */
const char *redisd_unix_url(const struct redisd *r);

/* Its TCP port. */
int redisd_port(const struct redisd *r);

/* Starts it again on the same address after redisd_stop or redisd_kill, and waits until it answers. It is empty,
 * unless redisd_command(r, "SAVE") was called before it ended. */
void redisd_start(struct redisd *r);

/* Stops it cleanly (SIGTERM) and waits for its end. */
void redisd_stop(struct redisd *r);

/* End it by SIGKILL and wait for its end. */
void redisd_kill(struct redisd *r);

/* redisd_stop and redisd_start. */
void redisd_restart(struct redisd *r);

/* Freezes it (SIGSTOP): it accepts connections but never answers. */
void redisd_pause(struct redisd *r);

/* Resumes a frozen server. */
void redisd_resume(struct redisd *r);

/* Runs one printf-like command (%s and numbers). Spaces in the format separate arguments, spaces in a %s do not.
 * Connects when needed; waits up to 10 s (stretched) for a starting server and for the answer. Returns the reply as
 * text, with array elements one per line, or NULL for nil. An error reply fails the test. */
char *redisd_command(struct redisd *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a command with a number as its reply; nil or other text fails the test. */
long redisd_long(struct redisd *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* How many keys begin with the prefix. */
long redisd_count(struct redisd *r, const char *prefix);

#endif
