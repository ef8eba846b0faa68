/* Which of a host's addresses a feed is dialled at. test_resolve.c stands in for the lookup of "dead.test". */
#include "net/dial.h"

#include "unit.h"
#include <arpa/inet.h>
#include <sys/socket.h>

static int listen_at(const char *address, in_port_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = inet_addr(address)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 0), 0);
	return fd;
}

static in_port_t port_of(int fd)
{
	struct sockaddr_in at;
	socklen_t size = sizeof(at);

	getsockname(fd, (struct sockaddr *)&at, &size);
	return at.sin_port;
}

/* Fills the backlog of a listening socket, so that further connections are not answered. */
static void fill(int dead)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = port_of(dead), .sin_addr.s_addr = inet_addr("127.0.0.3")};

	for (int i = 0; i < 3; i++)
		connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), (struct sockaddr *)&at,
			sizeof(at));
}

static void charge(void *owner, long bytes)
{
}

static bool is_never_full(const void *owner)
{
	return false;
}

static void on_end(void *arg, const struct dial_end *end)
{
	cr_assert_null(arg, "%s", end->reason);
}

Test(dial, address_that_does_not_answer_holds_up_the_next_one_for_a_moment, .timeout = 60)
{
	const struct config config = {.handshake_timeout_s = 3600};
	const struct dial_owner owner = {.on_end = on_end};
	char url[60], error[200], request[4] = "";
	int dead = listen_at("127.0.0.3", 0), live = listen_at("127.0.0.2", port_of(dead)), peer = -1;
	uv_loop_t loop;

	fill(dead);
	uv_loop_init(&loop);
	struct ws *ws = ws_open(&loop, &config, &(struct ws_budget){NULL, charge, is_never_full, is_never_full});
	struct dialler *dialler = dialler_open(ws, &config, false, error, sizeof(error));
	snprintf(url, sizeof(url), "ws://dead.test:%d/", ntohs(port_of(dead)));
	struct dial *d = dial_start(dialler, url, &(struct upgrade_offer){0}, 0, &owner, NULL);
	while (recv(peer, request, 3, 0) != 3) {
		uv_run(&loop, UV_RUN_ONCE);
		if (peer < 0)
			peer = accept4(live, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	}
	cr_assert_str_eq(request, "GET");
	dial_leave(d, 0);
}
