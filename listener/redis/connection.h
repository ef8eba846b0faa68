/* connection.h: a connection to Redis: to one server, to the master that sentinels name, or to a cluster. It reconnects
 * by itself, and every answer has a deadline. */
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
	REDIS_CONNECTING, /* name lookup, connect, login */
	REDIS_READY,
	REDIS_CLOSING,
};

struct redis_settings {
	const char *url;  /* checked by config.c */
	const char *ca;   /* for TLS: file of trusted certificates, checked by config.c */
	const char *cert; /* for TLS: file of our certificate; NULL, like key, if there is none */
	const char *key;
	int64_t timeout_ms;
	bool is_second; /* the process has another connection to the same server, which logs what happens to it */
	/* Called after each change of state; on a cluster also with REDIS_READY for each further ready master. */
	void (*on_state)(void *owner, enum redis_state state);
	/* Called for each message of a channel that the owner has subscribed to; bytes are valid during the call. Such
	 * a connection takes no other commands but PING, and on a cluster it stays with one server. NULL: no
	 * subscriptions. */
	void (*on_message)(void *owner, const char *bytes, size_t len);
	void *owner;
};

/* Starts connecting. */
struct redis *redis_open(uv_loop_t *loop, const struct redis_settings *settings);

enum redis_state redis_state(const struct redis *r);

/* Returns why the server in the URL is not ready, or "" if unknown. Valid until the loop runs. */
const char *redis_trouble(const struct redis *r);

/* True for a cluster. There, the keys of one command must be in one slot, and our keys have REDIS_CLUSTER_TAG between
 * prefix and id: after empty braces Redis hashes the whole key, whatever braces the id has. */
#define REDIS_CLUSTER_TAG "{}"
bool redis_is_cluster(const struct redis *r);

/* Sends a formatted command, on a cluster to the server that has the first key. Returns 0, and cb is called exactly
 * once, later, never from inside this call; or -1 because that server cannot be asked now, and cb is never called.
 * bytes are copied. cb may be NULL. */
int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg);

/* Returns a name for this connection: 8 hex digits of the server's run_id, a dot, and the number that CLIENT LIST ID
 * takes. "" if unknown. Valid until the connection ends. */
const char *redis_client(const struct redis *r);

/* Masks the password in text from the server. Errors are masked already. */
void redis_mask(const struct redis *r, char *text);

/* Returns the number of commands without an answer. */
uint64_t redis_unanswered(const struct redis *r);

/* Ends the connection. Unanswered commands get NULL. done is called from the loop before r is freed. */
void redis_close(struct redis *r, void (*done)(void *arg), void *arg);

#endif
