/* server.h: a connection to one server, which logs in and reconnects. */
#ifndef WSONCE_REDIS_SERVER_H
#define WSONCE_REDIS_SERVER_H

#include "base/tls.h"
#include "redis/address.h"
#include "redis/connection.h"

struct server;

struct server_settings {
	const struct redis_address *address; /* the login; also the servers, unless host is set */
	const char *host;                    /* the one server to connect to, or NULL */
	int port;
	const struct tls_trust *trust; /* NULL without TLS */
	int64_t timeout_ms;
	bool is_second; /* as in connection.h */
	void (*on_state)(void *owner, enum redis_state state);
	void (*on_message)(void *asker, const char *bytes, size_t len); /* as in connection.h; may be NULL */
	void *owner;
	void *asker; /* passed to callbacks as owner */
};

/* Starts connecting. What settings point to must outlive the server. */
struct server *server_open(uv_loop_t *loop, const struct server_settings *settings);

struct server_view {
	enum redis_state state;
	const char *trouble; /* why the last connection ended, "" if none has ended since the server was ready */
	const char *host;    /* the name or address it is connected to, "" for a socket */
	const char *client;  /* what redis_client() returns */
	bool is_cluster;     /* the server belongs to a cluster; known once it is ready */
};
const struct server_view *server_view(const struct server *s);

/* Like the functions of connection.h. */
int server_send(struct server *s, const char *bytes, size_t len, redis_cb *cb, void *arg);
uint64_t server_unanswered(const struct server *s);
void server_close(struct server *s, void (*done)(void *arg), void *arg);

#endif
