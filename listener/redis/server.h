/* server.h: a server that is logged in to, has our scripts, and is connected to again when it was lost. */
#ifndef WSONCE_REDIS_SERVER_H
#define WSONCE_REDIS_SERVER_H

#include "base/tls.h"
#include "redis/address.h"
#include "redis/connection.h"

struct server;

struct server_settings {
	const struct redis_address *address; /* of which the login is taken, and, without a host here, the server */
	const char *host;                    /* NULL, or the one server to connect to */
	int port;
	const struct tls_trust *trust; /* NULL: in the clear */
	int64_t timeout_ms;
	void (*on_state)(void *owner, enum redis_state state);
	void *owner;
	void *asker; /* the owner that answers are told to */
};

/* Starts connecting. What settings point to must live as long. */
struct server *server_open(uv_loop_t *loop, const struct server_settings *settings);

enum redis_state server_state(const struct server *s);

/* Is it one of a cluster's? Known when it is ready. */
bool server_is_cluster(const struct server *s);

/* The name or address that it is connected to; "" for a socket. */
const char *server_host(const struct server *s);

/* As the functions of connection.h. */
int server_send(struct server *s, const char *bytes, size_t len, redis_cb *cb, void *arg);
const char *server_script_sha(const struct server *s, enum redis_script script);
const char *server_client(const struct server *s);
void server_load_scripts(struct server *s);
uint64_t server_unanswered(const struct server *s);
void server_close(struct server *s, void (*done)(void *arg), void *arg);

#endif
