/* server.h: the listening side of the feed: who is connected, and what was written to whom. */
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
	double stall_timeout_s; /* a client that reads nothing for so long is cut off; 0 = never */
	uint64_t behind_most;   /* a client further behind than so many bytes is cut off; 0 = never */
};

struct server_counts {
	uint64_t connections; /* handshakes done */
	uint64_t deliveries;  /* messages written, over all connections */
	uint64_t bytes;       /* of frames written */
	uint64_t drops;       /* connections cut on purpose */
	uint64_t stalls;      /* cut because they read nothing */
	uint64_t overruns;    /* cut because they fell too far behind */
	uint64_t departures;  /* closed by the other side, or broken */
};

/* Called after a client has come, gone or read. May append to the backlog and call
 * server_wake(), nothing else. */
typedef void server_cb(void *arg);

/* Listens. Clients get what is appended to b after they came. NULL if that address cannot be had;
 * the reason is on standard error. */
struct server *server_open(uv_loop_t *loop, const struct server_settings *settings, struct backlog *b, server_cb *cb,
			   void *arg);

int server_port(const struct server *s);
unsigned int server_clients(const struct server *s);
const struct server_counts *server_counts(const struct server *s);

/* Something was appended: whoever waits for it may write. */
void server_wake(struct server *s);

/* Whether some client has not been given all of the backlog yet. */
bool server_is_behind(const struct server *s);

/* Whether every client's kernel has everything. */
bool server_is_flushed(const struct server *s);

/* Cuts one connection at once, wherever its stream is. which is any evenly distributed number. */
void server_cut(struct server *s, uint64_t which);

/* Cuts off who stalls or is too far behind. To be called some ten times a second. */
void server_check(struct server *s, int64_t now_ns);

/* Ends every connection: a close frame with this code, then wait for the client's own. No client
 * is let in from now on. server_clients() tells when all are gone. */
void server_say_goodbye(struct server *s, unsigned int code);

/* Cuts what is left, and lets go of the port. It is done when the loop has nothing to do any more. */
void server_close(struct server *s);

/* After that. */
void server_free(struct server *s);

#endif
