/* connection.h: Redis, whatever it is made of: one server, the master that sentinels name, or a cluster. It
 * comes back by itself, and every answer has a deadline. */
#ifndef WSONCE_REDIS_CONNECTION_H
#define WSONCE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis/reply.h"

struct redis;

enum redis_state {
	REDIS_DOWN,       /* not connected; a timer will try again */
	REDIS_CONNECTING, /* address lookup, connect, login, scripts */
	REDIS_READY,
	REDIS_CLOSING,
};

enum redis_script { REDIS_HEARTBEAT, REDIS_RELEASE, REDIS_RENEW, REDIS_SCRIPTS };

#define REDIS_TAGS 64

struct redis_settings {
	const char *url;  /* checked by config.c */
	const char *ca;   /* for TLS, files: whom to trust, also checked; */
	const char *cert; /* NULL, like the key, or what to show */
	const char *key;
	int64_t timeout_ms;
	/* Called after each change of state; on a cluster with REDIS_READY again, when one more master can be asked. */
	void (*on_state)(void *owner, enum redis_state state);
	void *owner;
};

/* Starts connecting. */
struct redis *redis_open(uv_loop_t *loop, const struct redis_settings *settings);

enum redis_state redis_state(const struct redis *r);

/* The part of the keys that the key of an event belongs to: 0 with one server, on a cluster one of REDIS_TAGS, and one
 * command may name keys of one part only. The same in each process. */
unsigned int redis_tag(const struct redis *r, const char *id, size_t len);
/* What stands between the prefix of our keys and the id: "" with one server, "{...}" on a cluster. */
const char *redis_tag_text(const struct redis *r, unsigned int tag);

/* Sends a formatted command, on a cluster to the server that has the first key. Returns 0, and cb is called exactly
 * once, later, never from inside this call; or -1 because the connection is not ready, and cb is never called. bytes
 * are copied. cb may be NULL. */
int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg);

/* The SHA1 by which a script is run, 40 characters; "" until the server has told it. */
const char *redis_script_sha(const struct redis *r, enum redis_script script);

/* Loads the scripts again, after the server answered NOSCRIPT. */
void redis_load_scripts(struct redis *r);

/* Which connection this is: 8 hex digits of the server's run_id, a dot, and the number that CLIENT LIST ID takes; "" if
 * the server does not tell. Lives until the connection ends. */
const char *redis_client(const struct redis *r);

/* Overwrites the password in a text that the server sent and that is to be shown. In errors it is overwritten
 * already. */
void redis_mask(const struct redis *r, char *text);

/* Commands sent and not answered. */
uint64_t redis_unanswered(const struct redis *r);

/* Ends the connection; unanswered commands get NULL. done is called from the loop when nothing
 * of r is left. */
void redis_close(struct redis *r, void (*done)(void *arg), void *arg);

#endif
