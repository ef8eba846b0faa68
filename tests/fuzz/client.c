/* client.c owns the client's socket. */
#include "client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include "fuzz.h"

#define QUIET_TURNS 3 /* after this many turns of the loop without bytes, no more will come */

/* Will end by a reset, so that its port is free at once. */
void client_open(struct client *c, const struct sockaddr_in *server)
{
	static const struct linger at_once = {1, 0};
	static uint32_t number;
	struct sockaddr_in from = {.sin_family = AF_INET};
	int failed;

	from.sin_addr.s_addr = htonl(0x7f010000 + number++ % 0xfe0000);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(c->fd, (struct sockaddr *)&from, sizeof(from)) == 0, "no address: %s", strerror(errno));
	do /* libFuzzer's timer interrupts it */
		failed = connect(c->fd, (const struct sockaddr *)server, sizeof(*server));
	while (failed && (errno == EINTR || errno == EALREADY));
	must(!failed || errno == EISCONN, "cannot connect: %s", strerror(errno));
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	c->is_ended = false;
	c->len = 0;
	c->answer[0] = '\0';
}

bool client_turn(struct client *c)
{
	uv_run(c->loop, UV_RUN_NOWAIT);
	bool is_busy = c->on_turn && c->on_turn();
	must(c->len < sizeof(c->answer) - 1, "an answer without an end");
	ssize_t n = recv(c->fd, c->answer + c->len, sizeof(c->answer) - 1 - c->len, 0);
	if (n > 0)
		c->len += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		c->is_ended = true;
	c->answer[c->len] = '\0';
	return n > 0 || is_busy;
}

void client_await_quiet(struct client *c)
{
	for (int quiet = 0; quiet < QUIET_TURNS; quiet++)
		if (client_turn(c))
			quiet = 0;
}

void client_send(struct client *c, const void *bytes, size_t len, unsigned int cut)
{
	const char *at = bytes;

	while (len && !c->is_ended) {
		size_t n = cut ? 1 + (cut = cut * 1103515245 + 12345) / 65536 % (len / 3 + 1) : len;
		ssize_t sent = send(c->fd, at, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			break;
		if (sent > 0) {
			at += sent;
			len -= (size_t)sent;
		}
		client_turn(c);
	}
}
