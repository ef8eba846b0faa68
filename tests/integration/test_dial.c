/* How a listener dials a feed: redirects, compression, a proxy, a certificate of its own. */
#include "support.h"
#include "bench.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <zlib.h>

#define SETTLED_MS 20000

static struct feed *feed;

#define START(flags, ...) bench_dial(NULL, NULL, "--max-message 64KiB --log-level debug " flags, __VA_ARGS__)

static void start_feed(const char *flags)
{
	START("--source %s %s", feed_url(feed), flags);
}

static void set_up(void)
{
	feed = feed_new();
}

TestSuite(dial, .init = set_up, .fini = bench_close, .timeout = 120);

/* ---- redirects ---- */

Test(dial, a_redirect_on_the_same_host_is_followed)
{
	feed_answer(feed, "/feed", "HTTP/1.1 307 There\r\nLocation: /there?x=1\r\n\r\n");
	start_feed("");
	bench_expect_heard(feed, "event_id", "there");
	cr_assert(strncmp(feed_request(feed), "GET /there?x=1 HTTP/1.1\r\n", 25) == 0, "%s", feed_request(feed));
	cr_assert_eq(feed_refusals(feed), 1);
	feed_drop_all(feed);
	await(feed_refusals(feed) == 2, SETTLED_MS, "it begins where it was told to");
	bench_expect_heard(feed, "event_id", "there-again");
}

Test(dial, a_redirect_to_another_host_is_refused)
{
	struct feed *other = feed_new();
	char *answer = suite_text("HTTP/1.1 301 There\r\nLocation: ws://localhost:%d/x\r\n\r\n", feed_port(other));
	feed_answer(feed, "/feed", answer);
	start_feed("");
	bench_expect_status("its redirect to another host is not followed: the server answered 301 instead of 101");
	await(feed_refusals(feed) >= 2, SETTLED_MS);
	cr_assert_null(feed_request(other));
}

Test(dial, redirects_in_a_circle_end)
{
	feed_answer(feed, "/", "HTTP/1.1 302 There\r\nLocation: /round\r\n\r\n");
	start_feed("");
	bench_expect_status("it redirects too often");
	feed_answer(feed, "/not", "");
	bench_expect_heard(feed, "event_id", "after the circle");
	cr_assert_leq(feed_refusals(feed), 6 * 12);
}

/* ---- compression ---- */

static z_stream packer;

static void send_packed(const char *text)
{
	static unsigned char frame[200000];
	unsigned char *at = frame;

	packer.next_in = (Bytef *)(uintptr_t)text;
	packer.avail_in = (uInt)strlen(text);
	packer.next_out = frame + 4;
	packer.avail_out = sizeof frame - 4;
	deflate(&packer, Z_SYNC_FLUSH);
	size_t len = sizeof frame - 4 - packer.avail_out - 4;
	cr_assert_lt(len, 65536);
	if (len < 126)
		at += 2;
	at[0] = 0xc1;
	at[1] = (unsigned char)(len < 126 ? len : 126);
	if (len >= 126)
		at[2] = (unsigned char)(len >> 8), at[3] = (unsigned char)len;
	feed_send_raw(feed, at, (size_t)(frame + 4 - at) + len);
}

static void start_packed(void)
{
	feed_accept_with(feed, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
	start_feed("");
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	cr_assert_eq(deflateInit2(&packer, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
}

Test(dial, what_is_compressed_is_heard)
{
	start_packed();
	for (int i = 0; i < 300; i++)
		send_packed(suite_text("{\"event_id\":\"packed-%d\",\"payload\":\"%0300d\"}", i, i));
	await(bench_rows() == 300, SETTLED_MS, "%ld", bench_rows());
	bench_expect_heard(feed, "event_id", "plain between");
	send_packed("{\"event_id\":\"at last\"}");
	await(bench_rows() == 302, SETTLED_MS);
	cr_assert_eq(feed_connections(feed), 1);
}

/* Sends a text that inflates to this many bytes. */
static char *long_text(size_t len)
{
	char *text = malloc(len + 1);

	memset(text, 'x', len);
	text[len] = '\0';
	return text;
}

Test(dial, what_inflates_to_more_than_the_limit_is_a_dead_letter)
{
	start_packed();
	send_packed(long_text(200000));
	send_packed("{\"event_id\":\"after\"}");
	await(bench_rows() == 1, SETTLED_MS);
	await(bench_count("dead_letters WHERE reason LIKE '%%200000 bytes%%'") == 1, SETTLED_MS);
	cr_assert_eq(feed_connections(feed), 1);
}

/* 100 MiB compressed to 100 KiB: at most 16 times the limit is inflated. */
Test(dial, a_bomb_ends_its_connection_as_too_long)
{
	start_packed();
	send_packed(long_text(40 << 20));
	await(listener_has_logged(listener, "inflates to too many bytes: closed with 1009"), SETTLED_MS);
	await(bench_count("dead_letters") == 1, SETTLED_MS);
	await(feed_connections(feed) == 2, SETTLED_MS);
	bench_expect_heard(feed, "event_id", "after the bomb");
}

Test(dial, compression_need_not_be_offered)
{
	start_feed("--source-uncompressed");
	bench_expect_heard(feed, "event_id", "one");
	cr_assert_null(frame_header(feed_request(feed), "Sec-WebSocket-Extensions"));
}

/* ---- a proxy ---- */

Test(dial, a_proxy_is_asked_for_the_way)
{
	START("--source ws://feed.invalid:8080/x --source-proxy http://u:p@127.0.0.1:%d", feed_port(feed));
	bench_expect_heard(feed, "event_id", "by-proxy");
	cr_assert_eq(feed_tunnels(feed), 1);
	cr_assert_str_eq(frame_header(feed_request(feed), "Host"), "feed.invalid:8080");
	cr_assert_null(frame_header(feed_request(feed), "Proxy-Authorization"), "that is for the proxy alone");
}

/* What a proxy does. It connects to one port, whatever it is asked for. */
struct proxy {
	int to_port;
	const char *target; /* SOCKS5: of which this is asked; another one is refused with code 5 */
	const char *login;  /* USER:PASSWORD; NULL: it wants none */
	const char *answer; /* to CONNECT; NULL: it connects */
	bool is_slow;       /* its bytes come one by one */
	bool is_v6;         /* it listens on ::1 */
	bool is_hanging;    /* the nth connection gets no answer after n of them */
};

static void say_slowly(const struct proxy *p, int fd, const char *bytes, size_t len)
{
	for (size_t n = 0, step = p->is_slow ? 1 : len; n < len; n += step)
		if (write(fd, bytes + n, step) != (ssize_t)step)
			_exit(1);
}

static void hear(int fd, void *bytes, size_t len)
{
	if (recv(fd, bytes, len, MSG_WAITALL) != (ssize_t)len)
		_exit(1);
}

static void hang(const struct proxy *p, int left)
{
	if (p->is_hanging && left == 0)
		for (;;)
			pause();
}

static bool knows_login(const struct proxy *p, int fd)
{
	char text[2][256] = {"", ""};
	unsigned char len;

	hear(fd, &len, 1); /* the version */
	for (int i = 0; i < 2; i++) {
		hear(fd, &len, 1);
		hear(fd, text[i], len);
	}
	return strcmp(suite_text("%s:%s", text[0], text[1]), p->login) == 0;
}

/* HOST:PORT of a SOCKS5 request. */
static char *hear_target(int fd)
{
	unsigned char head[5], port[2];
	char bytes[256] = "", text[INET6_ADDRSTRLEN];
	int family;

	hear(fd, head, 4);
	family = head[3] == 4 ? AF_INET6 : AF_INET;
	if (head[3] == 3)
		hear(fd, head + 4, 1);
	hear(fd, bytes, head[3] == 3 ? head[4] : family == AF_INET6 ? 16 : 4);
	hear(fd, port, 2);
	return suite_text(family == AF_INET6 ? "[%s]:%d" : "%s:%d",
			  head[3] == 3 ? bytes : inet_ntop(family, bytes, text, sizeof text), port[0] << 8 | port[1]);
}

static void shake_socks5(const struct proxy *p, int fd, int number)
{
	unsigned char head[2], ways[255];
	char *target;

	hear(fd, head, 2);
	hear(fd, ways, head[1]);
	hang(p, number);
	if (p->login) {
		if (!memchr(ways, 2, head[1]))
			say_slowly(p, fd, "\5\xff", 2), _exit(0);
		say_slowly(p, fd, "\5\2", 2);
		if (!knows_login(p, fd))
			say_slowly(p, fd, "\1\1", 2), _exit(0);
		hang(p, number - 1);
		say_slowly(p, fd, "\1\0", 2);
	} else {
		say_slowly(p, fd, "\5\0", 2);
	}
	target = hear_target(fd);
	hang(p, number - 2);
	if (p->target && strcmp(target, p->target) != 0)
		say_slowly(p, fd, "\5\5\0\1\0\0\0\0\0\0", 10), _exit(0);
	say_slowly(p, fd, "\5\0\0\3\4name\0\0", 11);
}

static void shake_hands(const struct proxy *p, int fd, int number)
{
	char bytes[65536];

	fcntl(fd, F_SETFL, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (recv(fd, bytes, 1, MSG_PEEK) == 1 && bytes[0] == 5)
		shake_socks5(p, fd, number);
	else if (read(fd, bytes, sizeof bytes) < 8 || memcmp(bytes, "CONNECT ", 8) != 0)
		_exit(1);
	else
		dprintf(fd, "%s", p->answer ? p->answer : "HTTP/1.0 200 Connection established\r\n\r\n");
}

static int listen_on_v6(int port)
{
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons((uint16_t)port)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(bind(fd, (struct sockaddr *)&to, sizeof to) == 0 && listen(fd, 9) == 0, "no IPv6 loopback");
	return fd;
}

/* Starts a proxy with a process for each connection. Returns its port. */
static int start_proxy(const struct proxy *p)
{
	int port = port_reserve(), listen_fd = p->is_v6 ? listen_on_v6(port) : port_listen(port);

	if (fork())
		return close(listen_fd), port;
	fcntl(listen_fd, F_SETFL, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int number = 0;; number++) {
		int ends[2] = {accept(listen_fd, NULL, NULL), -1};
		char bytes[65536];
		ssize_t n;

		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		shake_hands(p, ends[0], number);
		ends[1] = port_connect(p->to_port, 5000);
		fcntl(ends[1], F_SETFL, 0);
		for (;;) {
			struct pollfd both[2] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};

			poll(both, 2, -1);
			for (int i = 0; i < 2; i++)
				if (both[i].revents && ((n = read(ends[i], bytes, sizeof bytes)) <= 0 ||
							write(ends[!i], bytes, (size_t)n) != n))
					_exit(0);
		}
	}
}

Test(dial, a_proxy_leads_to_tls)
{
	struct certificate *authority = certificate_authority_new();
	struct relay *front = relay_new_in_front(feed_port(feed), certificate_new(authority, "DNS:feed.invalid"));

	START("--source wss://feed.invalid/x --source-ca %s --source-proxy http://127.0.0.1:%d", authority->cert,
	      start_proxy(&(struct proxy){.to_port = relay_port(front)}));
	bench_expect_heard(feed, "event_id", "through-both");
}

Test(dial, a_proxy_that_refuses_is_told)
{
	feed_answer(feed, "nothing", "");
	int port = port_reserve();

	START("--source ws://127.0.0.1:%d/x --source-proxy http://127.0.0.1:%d", feed_port(feed), port);
	bench_expect_status(suite_text("the proxy 127.0.0.1:%d cannot be connected to: connection refused", port));
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 2, SETTLED_MS);
	cr_assert_null(feed_request(feed), "past the proxy nobody is asked");
}

Test(dial, what_a_proxy_answers_to_connect_is_told)
{
	int port = start_proxy(&(struct proxy){.to_port = feed_port(feed),
					       .answer = "HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n"});

	START("--source ws://feed.invalid/x --source-proxy http://u:sesame17@127.0.0.1:%d", port);
	bench_expect_status(suite_text("the proxy 127.0.0.1:%d answered 407 to CONNECT", port));
	cr_assert(!listener_has_logged(listener, "sesame"));
}

Test(dial, a_proxy_that_agrees_in_too_many_words_is_told)
{
	int port = start_proxy(&(struct proxy){.to_port = feed_port(feed),
					       .answer = suite_text("HTTP/1.1 200 OK\r\nA: %030000d\r\n\r\n", 0)});

	START("--source ws://feed.invalid/x --source-proxy http://127.0.0.1:%d", port);
	bench_expect_status(suite_text("the proxy 127.0.0.1:%d cannot be used: ", port));
}

Test(dial, a_socks5_proxy_leads_to_tls)
{
	struct certificate *authority = certificate_authority_new();
	struct relay *front = relay_new_in_front(feed_port(feed), certificate_new(authority, "DNS:feed.invalid"));
	const struct proxy proxy = {relay_port(front), "feed.invalid:443", "u:sesame@17", .is_slow = true,
				    .is_v6 = true};

	START("--source wss://feed.invalid/x --source-ca %s --source-proxy socks5://u:sesame%%4017@[::1]:%d",
	      authority->cert, start_proxy(&proxy));
	bench_expect_heard(feed, "event_id", "through-both");
	cr_assert(!listener_has_logged(listener, "sesame"));
}

Test(dial, a_socks5_proxy_is_used_for_http_calls)
{
	const struct proxy proxy = {.to_port = feed_port(feed), .login = "u:p"};

	feed_answer(feed, "/open", "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"url\": \"ws://feed.invalid/x\"}");
	START("--source-proxy socks5://u:p@127.0.0.1:%d --config %s", start_proxy(&proxy),
	      suite_file("sources.json",
			 "{\"sources\": [{\"url\": \"${url}\", \"url_http\": {\"method\": \"GET\", \"url\": "
			 "\"http://feed.invalid/open\", \"capture\": {\"url\": \"/url\"}}, \"rules\": [{"
			 "\"action\": \"event\", \"id\": [[\"/id\"]]}]}]}"));
	bench_expect_heard(feed, "id", "called");
}

/* Nothing listens on 127.0.0.77. */
Test(dial, a_proxy_without_a_port_has_the_same_one_for_connections_and_http_calls)
{
	START("--source ws://feed.invalid/x --source-proxy http://127.0.0.77 --config %s",
	      suite_file("sources.json",
			 "{\"sources\": [{\"url\": \"${url}\", \"url_http\": {\"method\": \"GET\", \"url\": "
			 "\"http://feed.invalid/open\", \"capture\": {\"url\": \"/url\"}}, \"rules\": [{"
			 "\"action\": \"event\", \"id\": [[\"/id\"]]}]}]}"));
	bench_expect_status("the proxy 127.0.0.77:80 cannot be connected to: connection refused");
	bench_expect_status("Failed to connect to 127.0.0.77 port 80 ");
}

Test(dial, what_a_socks5_proxy_refuses_is_told)
{
	const struct proxy proxy = {.to_port = feed_port(feed), .target = "[::1]:80", .login = "u:p"};
	int port = start_proxy(&proxy);

	START("--source ws://[::1]/x --source ws://[::1]:81/x --source-proxy socks5://u:p@127.0.0.1:%d", port);
	bench_expect_heard(feed, "event_id", "by address");
	bench_expect_status(
		suite_text("the proxy 127.0.0.1:%d cannot connect to the feed: connection refused (5)", port));
	cr_assert_eq(listener_stop(listener), 0);
	database_free(db);
	START("--source ws://[::1]/x --source-proxy socks5://u:sesame17@127.0.0.1:%d", port);
	bench_expect_status(suite_text("the proxy 127.0.0.1:%d refused the user and password", port));
	cr_assert(!listener_has_logged(listener, "sesame"));
}

Test(dial, a_socks5_proxy_that_hangs_is_told)
{
	const struct proxy proxy = {.to_port = feed_port(feed), .login = "u:p", .is_hanging = true};
	int port = start_proxy(&proxy);

	START("--source a=ws://feed/ --source b=ws://feed/ --source c=ws://feed/ --handshake-timeout 1 --source-proxy "
	      "socks5://u:p@127.0.0.1:%d",
	      port);
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 3, SETTLED_MS);
	bench_expect_status(suite_text("the proxy 127.0.0.1:%d did not answer in time", port));
	await(listener_metric(listener, "wsonce_sources_open") == 3, SETTLED_MS);
}

/* ---- why there is no connection ---- */

Test(dial, a_ping_without_an_answer_is_told)
{
	feed_answer_pings(feed, false);
	start_feed("--ping-interval 1s");
	bench_expect_status("a ping was not answered in time");
}

Test(dial, a_reset_is_told)
{
	start_feed("");
	await(listener_metric(listener, "wsonce_sources_open") == 1, SETTLED_MS);
	feed_drop_all(feed);
	await(listener_has_logged(listener, "reason=\"connection reset by peer\""), SETTLED_MS);
}

Test(dial, words_of_a_refusal_are_told_without_what_is_secret)
{
	feed_answer(feed, "/x", "HTTP/1.1 403 No\r\n\r\nthe\ttoken sesame17 has expired");
	START("--source ws://127.0.0.1:%d/x?token=sesame17", feed_port(feed));
	bench_expect_status("the server answered 403 instead of 101: the?token ******** has expired");
}

Test(dial, behind_a_redirect_the_first_url_is_a_secret_too)
{
	feed_answer(feed, "/x", "HTTP/1.1 302 There\r\nLocation: /x\r\n\r\nsesame17");
	START("--source ws://127.0.0.1:%d/x?token=sesame17", feed_port(feed));
	bench_expect_status("it redirects too often: the server answered 302 instead of 101: ********");
}

/* ---- a certificate of its own ---- */

Test(dial, a_certificate_is_shown_to_who_asks)
{
	struct certificate *authority = certificate_authority_new();
	struct certificate *ours = certificate_new_of(authority, &(struct certificate_text){.subject = "/CN=fleet"});
	struct relay *front = relay_new_asking(feed_port(feed), certificate_new(authority, "IP:127.0.0.1"), authority);

	START("--source wss://127.0.0.1:%d/x --source-ca %s --source-cert %s --source-key %s", relay_port(front),
	      authority->cert, ours->cert, ours->key);
	bench_expect_heard(feed, "event_id", "known");
	cr_assert_eq(listener_stop(listener), 0);
	database_free(db);
	START("--source wss://127.0.0.1:%d/x --source-ca %s", relay_port(front), authority->cert);
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 2, SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_sources_open"), 0);
}
