/* client.h: a TCP client that turns the server's loop itself, for the fuzzers of servers. */
#ifndef FUZZ_CLIENT_H
#define FUZZ_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct client {
	uv_loop_t *loop;       /* loop of the server */
	bool (*on_turn)(void); /* after each turn of the loop; returns whether anything has happened. May be NULL */
	int fd;
	bool is_ended; /* the server has ended the connection */
	size_t len;
	char answer[1 << 19]; /* ends with a NUL */
};

/* Connects from another address of 127.0.0.0/8 each time, so that no limit per address applies. */
void client_open(struct client *c, const struct sockaddr_in *server);
/* Turns the loop once and reads. Returns whether anything came. */
bool client_turn(struct client *c);
/* Turns the loop until nothing more comes. */
void client_await_quiet(struct client *c);
/* Sends in pieces whose lengths depend on cut; 0: in one piece. */
void client_send(struct client *c, const void *bytes, size_t len, unsigned int cut);

#endif
