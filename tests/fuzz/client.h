/* client.h: a TCP client that turns the server's loop itself, for the fuzzers of servers. */
#ifndef FUZZ_CLIENT_H
#define FUZZ_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct client {
	uv_loop_t *loop;       /* the server's */
	bool (*on_turn)(void); /* after each turn of the loop; returns whether anything has happened. May be NULL */
	int fd;
	bool is_ended; /* by the server */
	size_t len;
	char answer[1 << 19]; /* ended by a NUL */
};

/* Connects from another address of 127.0.0.0/8 each time, so that no address is slowed down for what another did. */
void client_open(struct client *c, const struct sockaddr_in *server);
/* Turns the loop once and reads. Returns whether anything came. */
bool client_turn(struct client *c);
/* Turns the loop until nothing more comes. */
void client_await_quiet(struct client *c);
/* Sends in pieces whose lengths follow from cut; 0: in one piece. */
void client_send(struct client *c, const void *bytes, size_t len, unsigned int cut);

#endif
