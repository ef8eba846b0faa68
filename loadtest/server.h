/* server.h: the server side of the feed: its clients, and what was written to each. */
#ifndef WSONCE_SERVER_H
#define WSONCE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct backlog;
struct server;

struct server_settings {
	const char *address;    /* to listen on; an IP address */
	int port;               /* 0 = any */
	double stall_timeout_s; /* drop a client that reads nothing for this long; 0 = never */
	uint64_t behind_most;   /* drop a client more bytes behind than this; 0 = never */
};

struct server_counts {
	uint64_t connections; /* completed handshakes */
	uint64_t deliveries;  /* messages written, over all connections */
	uint64_t bytes;       /* of frames written */
	uint64_t drops;       /* connections dropped on purpose (--drop-every) */
	uint64_t stalls;      /* dropped because they read nothing */
	uint64_t overruns;    /* dropped because they fell too far behind */
	uint64_t departures;  /* closed by the other side, or broken */
};

/* Called after a client connected, left or read. May only append to the backlog and call
 * server_wake(). */
typedef void server_cb(void *arg);

/* Listens. Clients receive what is appended to b after they connect. NULL if it cannot listen on that
 * address; prints the reason on standard error. */
struct server *server_open(uv_loop_t *loop, const struct server_settings *settings, struct backlog *b, server_cb *cb,
			   void *arg);

int server_port(const struct server *s);
unsigned int server_clients(const struct server *s);
const struct server_counts *server_counts(const struct server *s);

/* Something was appended to the backlog: write it to the clients that wait. */
void server_wake(struct server *s);

/* Is there a client to which not all of the backlog was written yet? */
bool server_is_behind(const struct server *s);

/* Has every client's kernel acknowledged everything? */
bool server_is_flushed(const struct server *s);

/* Drops one connection at once, even in the middle of a frame. which is a random number. */
void server_cut(struct server *s, uint64_t which);

/* Drops clients that stall or are too far behind. Call about ten times a second. */
void server_check(struct server *s, int64_t now_ns);

/* Sends every client a close frame with this code and accepts no new clients. server_clients() is 0
 * when all have answered. */
void server_say_goodbye(struct server *s, unsigned int code);

/* Drops the remaining clients and closes the port. Run the loop until it is done, then call
 * server_free(). */
void server_close(struct server *s);

void server_free(struct server *s);

#endif
