/* How a listener dials a feed: redirects, compression, a proxy, a certificate of its own, and feeds that accept and
 * close. */
#include "support.h"
#include "bench.h"
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
	bench_expect_status("answered 301 instead of 101, and its redirect to another host is not followed");
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

/* Starts a proxy that connects to this port whatever it is asked for, with a process for each connection. Returns its
 * port. */
static int start_proxy(int to_port)
{
	int port = port_reserve(), listen_fd = port_listen(port);

	if (fork())
		return close(listen_fd), port;
	fcntl(listen_fd, F_SETFL, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int ends[2] = {accept(listen_fd, NULL, NULL), -1};
		char bytes[65536];
		ssize_t n;

		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if ((n = read(ends[0], bytes, sizeof bytes)) < 8 || memcmp(bytes, "CONNECT ", 8) != 0)
			_exit(1);
		ends[1] = port_connect(to_port, 5000);
		fcntl(ends[1], F_SETFL, 0);
		dprintf(ends[0], "HTTP/1.0 200 Connection established\r\n\r\n");
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
	      start_proxy(relay_port(front)));
	bench_expect_heard(feed, "event_id", "through-both");
}

Test(dial, a_proxy_that_refuses_is_told)
{
	feed_answer(feed, "nothing", "");
	START("--source ws://127.0.0.1:%d/x --source-proxy http://127.0.0.1:%d", feed_port(feed), port_reserve());
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 2, SETTLED_MS);
	cr_assert_null(feed_request(feed), "past the proxy nobody is asked");
}

/* ---- why there is no connection ---- */

Test(dial, a_ping_without_an_answer_is_told)
{
	feed_answer_pings(feed, false);
	start_feed("--ping-interval 1s");
	bench_expect_status("a ping was not answered in time");
}

Test(dial, words_of_a_refusal_are_told_without_what_is_secret)
{
	feed_answer(feed, "/x", "HTTP/1.1 403 No\r\n\r\nthe\ttoken sesame17 has expired");
	START("--source ws://127.0.0.1:%d/x?token=sesame17", feed_port(feed));
	bench_expect_status("the server answered 403 instead of 101: the?token ******** has expired");
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

/* ---- feeds that accept and close ---- */

/* Sends a greeting, which is not an event, and closes. */
Test(dial, one_that_greets_and_closes_is_left_alone_for_longer_each_time)
{
	int64_t end = wait_now_ms() + 5000;

	start_feed("");
	while (wait_now_ms() < end) {
		feed_send_text(feed, "{\"type\":\"welcome\"}");
		feed_close_all(feed, 1013);
		wait_pause_ms(5);
	}
	cr_assert_leq(feed_connections(feed), 20);
}
