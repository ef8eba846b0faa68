/* Which of a host's addresses a feed is dialled at, and when it is read again. test_resolve.c stands in for the lookup
 * of "dead.test". */
#include "net/dial.h"

#include "unit.h"
#include <arpa/inet.h>
#include <openssl/evp.h>
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

static uv_loop_t loop;
static struct upgrade_offer offer;
static int live; /* listening socket */
static struct dial *held, *next;
static int heard;

static void on_open(void *arg)
{
}

static void on_message(void *arg, const char *message, size_t len, bool is_text)
{
	heard++;
	dial_hold(held, heard == 1 && !offer.has_deflate);
	if (next && heard == 2)
		dial_leave(next, 0);
}

static int accept_one(void)
{
	return accept4(live, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static struct dial *dial_live(void)
{
	static const struct config config = {.handshake_timeout_s = 3600, .message_bytes = 100};
	static const struct dial_owner owner = {.on_open = on_open, .on_message = on_message, .on_end = on_end};
	static struct dialler *dialler;
	char url[60], error[200];

	if (!dialler)
		dialler = dialler_open(
			ws_open(&loop, &config, &(struct ws_budget){NULL, charge, is_never_full, is_never_full}),
			&config, false, error, sizeof(error));
	snprintf(url, sizeof(url), "ws://127.0.0.2:%d/", ntohs(port_of(live)));
	return dial_start(dialler, url, &offer, 0, &owner, NULL);
}

/* Dials, and opens the connection with these headers. Returns the feed's socket. */
static int open_with(const char *headers)
{
	char text[2000] = "", joined[100];
	unsigned char digest[20], accept[40];
	int peer = -1;

	live = listen_at("127.0.0.2", 0);
	uv_loop_init(&loop);
	held = dial_live();
	while (recv(peer, text, sizeof(text) - 1, 0) <= 0) {
		uv_run(&loop, UV_RUN_ONCE);
		if (peer < 0)
			peer = accept_one();
	}
	snprintf(joined, sizeof(joined), "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
		 strstr(text, "Sec-WebSocket-Key: ") + 19);
	EVP_Digest(joined, strlen(joined), digest, NULL, EVP_sha1(), NULL);
	EVP_EncodeBlock(accept, digest, sizeof(digest));
	dprintf(peer,
		"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
		accept, headers);
	return peer;
}

/* Stops reading between two messages that came in one piece. */
static void begin(void)
{
	static const char two[] = "\x81\x01"
				  "1"
				  "\x81\x01"
				  "2";

	cr_assert_eq(write(open_with(""), two, 6), 6);
	while (!heard)
		uv_run(&loop, UV_RUN_ONCE);
	uv_run(&loop, UV_RUN_NOWAIT);
	cr_assert_eq(heard, 1);
}

/* Reading resumes at the end of a turn. Nothing else may wake the loop for what came in one piece with the last
 * message. */
Test(dial, what_was_kept_is_read_in_the_next_turn, .timeout = 60)
{
	begin();
	dial_hold(held, false);
	cr_assert_eq(uv_backend_timeout(&loop), 0, "the loop waits for something else");
	uv_run(&loop, UV_RUN_NOWAIT);
	cr_assert_eq(heard, 2);
	dial_leave(held, 0);
}

static void on_prepare(uv_prepare_t *prepare)
{
	if (accept_one() < 0)
		return;
	dial_hold(held, false); /* the loop has yet to hear of the connection */
	uv_prepare_stop(prepare);
}

/* A message that was kept may end the source while its next connection has just come about. */
Test(dial, message_that_was_kept_ends_a_connection_that_has_something_to_write, .timeout = 10)
{
	uv_prepare_t prepare;

	begin();
	next = dial_live();
	uv_prepare_init(&loop, &prepare);
	uv_prepare_start(&prepare, on_prepare);
	while (heard < 2)
		uv_run(&loop, UV_RUN_ONCE);
	dial_leave(held, 0);
}

/* The rest waits for the next turn, in which others are served, too. */
Test(dial, what_inflates_to_much_is_read_in_several_turns, .timeout = 60)
{
	static char blank[900000], all[40000];
	size_t len = 0;
	int turns = 0, peer;

	offer = (struct upgrade_offer){.has_deflate = true, .max_message = sizeof(blank)};
	peer = open_with("Sec-WebSocket-Extensions: permessage-deflate\r\n");
	for (int i = 0; i < 20; i++)
		len += compressed_frame(all + len, blank, sizeof(blank));
	cr_assert_eq(write(peer, all, len), len);
	for (int before = 0; heard<20; before = heard, turns += heard> 0) {
		uv_run(&loop, heard ? UV_RUN_NOWAIT : UV_RUN_ONCE);
		cr_assert_leq(heard, before + 4);
	}
	cr_assert_geq(turns, 5);
	cr_assert_eq(write(peer, all, len), len);
	while (heard < 40)
		uv_run(&loop, UV_RUN_ONCE);
	dial_leave(held, 0);
}
