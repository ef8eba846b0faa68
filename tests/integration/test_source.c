/* Dialled feeds: several at once, coming back after every kind of end, silence, text and binary and
 * fragments, over-long messages, wss:// and its errors, and URLs with secrets. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 20000

static struct feed *feed;

#define START(...) bench_dial(feed ? feed_url(feed) : NULL, NULL, "--max-message 64KiB " __VA_ARGS__)

/* With the feed, connected. */
static void start_connected(const char *flags)
{
	feed = feed_new();
	START("%s", flags);
	listener_wait_ready(listener);
}

static void set_up(void)
{
	start_connected("");
}

static void wait_rows(long n)
{
	await(bench_rows() == n, SETTLED_MS, "%ld rows, not %ld", bench_rows(), n);
}

/* ---- several ---- */

Test(source, one_process_listens_to_several)
{
	struct feed *others[2] = {feed_new(), feed_new()};

	feed = feed_new();
	START("--source %s --source %s", feed_url(others[0]), feed_url(others[1]));
	listener_wait_ready(listener);
	cr_assert_eq(listener_metric(listener, "wsonce_sources_open"), 3);
	feed_send_text(feed, "{\"event_id\":\"first\"}");
	feed_send_text(others[0], "{\"event_id\":\"second\"}");
	feed_send_text(others[1], "{\"event_id\":\"third\"}");
	feed_send_text(feed, "{\"event_id\":\"of-all\"}");
	feed_send_text(others[0], "{\"event_id\":\"of-all\"}");
	feed_send_text(others[1], "{\"event_id\":\"of-all\"}");
	wait_rows(4);
	cr_assert(listener_has_logged(listener, "an event has no payload, and is stored with {}"));
	feed_free(others[0]);
	await(listener_status(listener, "/readyz") == 503, SETTLED_MS);
	bench_expect_heard(feed, "event_id", "while-another-is-away");
	bench_close();
}

/* Nothing listens on port 1. */
Test(source, is_dialled_past_the_proxy_of_the_environment)
{
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("all_proxy", "http://127.0.0.1:1", 1);
	set_up();
	bench_expect_heard(feed, "event_id", "past-the-proxy");
	bench_close();
}

Test(source, a_url_without_path_and_a_host_name_will_do)
{
	char flags[100];

	struct feed *named = feed_new();
	snprintf(flags, sizeof flags, "--source ws://localhost:%d", feed_port(named));
	START("%s", flags);
	listener_wait_ready(listener);
	feed = named;
	bench_expect_heard(feed, "event_id", "one");
	char *request = feed_request(feed);
	cr_assert(strncmp(request, "GET / HTTP/1.1\r\n", 16) == 0, "%s", request);
	char *host = frame_header(request, "Host");
	snprintf(flags, sizeof flags, "localhost:%d", feed_port(named));
	cr_assert_str_eq(host, flags);
	bench_close();
}

/* ---- coming back ---- */

Test(source, it_comes_back_whenever_the_connection_is_cut, .init = set_up, .fini = bench_close)
{
	char id[40];

	for (int i = 0; i < 6; i++) {
		snprintf(id, sizeof id, "round-%d", i);
		bench_expect_heard(feed, "event_id", id);
		feed_drop_all(feed);
		await(feed_connections(feed) == i + 2, SETTLED_MS);
	}
	cr_assert_geq(listener_metric(listener, "wsonce_source_disconnects_total"), 6);
}

Test(source, why_it_cannot_come_back_is_told_at_once, .init = set_up, .fini = bench_close)
{
	feed_refuse(feed, 401);
	feed_drop_all(feed);
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 4, SETTLED_MS);
	cr_assert_eq(listener_count_logged(listener, "cannot connect to source"), 1);
	cr_assert(listener_has_logged(listener, "the server answered 401"));
}

Test(source, it_waits_for_a_feed_that_is_not_there_yet)
{
	int port = port_reserve();

	START("--source ws://127.0.0.1:%d/feed", port);
	await(listener_status(listener, "/readyz") == 503 &&
		      listener_metric(listener, "wsonce_source_disconnects_total") >= 4,
	      SETTLED_MS);
	cr_assert_eq(listener_count_logged(listener, "cannot connect to source, will retry"), 1, "not one per try");
	feed = feed_new_at(port);
	bench_expect_heard(feed, "event_id", "at last");
	await(listener_status(listener, "/readyz") == 200, SETTLED_MS);
	bench_close();
}

Test(source, of_many_that_connect_together_twenty_are_named)
{
	char *more = "";

	feed = feed_new();
	for (int i = 0; i < 30; i++)
		more = suite_text("%s --source f%d=ws://127.0.0.1:%d/feed%d", more, i, feed_port(feed), i);
	START("%s", more);
	cr_assert(feed_wait_clients(feed, 30, SETTLED_MS));
	await(listener_status(listener, "/readyz") == 200, SETTLED_MS);
	cr_assert_eq(listener_count_logged(listener, "to=open"), 20);
	cr_assert_eq(
		listener_metric(listener, suite_text("wsonce_source_up{source=\"f29\",url=\"ws://127.0.0.1:%d/***\"}",
						     feed_port(feed))),
		1);
	bench_close();
}

Test(source, one_that_opens_and_closes_again_and_again_is_told_a_few_times, .init = set_up, .fini = bench_close)
{
	for (int i = 2; i <= 8; i++) {
		feed_close_all(feed, 1013);
		await(feed_connections(feed) >= i, SETTLED_MS);
	}
	cr_assert_leq(listener_count_logged(listener, "to=open"), 5, "%s", process_errors(listener_process(listener)));
	cr_assert_eq(listener_count_logged(listener, "cannot connect to source"), 0);
	cr_assert_leq(listener_count_logged(listener, "source connection lost, will retry"), 4);
}

Test(source, one_that_sends_an_event_and_closes_is_left_alone_for_longer_each_time, .init = set_up, .fini = bench_close)
{
	int64_t end = wait_now_ms() + 3000;

	while (wait_now_ms() < end) {
		feed_send_text(feed, "{\"event_id\":\"welcome\"}");
		feed_close_all(feed, 1013);
		wait_pause_ms(5);
	}
	cr_assert_leq(feed_connections(feed), 15);
	bench_expect_heard(feed, "event_id", "it works");
}

Test(source, one_that_is_busy_is_given_time, .init = set_up, .fini = bench_close)
{
	feed_refuse(feed, 503);
	feed_drop_all(feed);
	await(feed_refusals(feed) >= 1, SETTLED_MS);
	await(listener_page_has(listener, "/api/status", "answered 503"), SETTLED_MS);
	int64_t refused_ms = wait_now_ms();
	await(feed_refusals(feed) >= 2, SETTLED_MS);
	cr_assert_geq(wait_now_ms() - refused_ms, 700);
	feed_refuse(feed, 0);
}

Test(source, the_words_of_a_close_frame_are_told, .init = set_up, .fini = bench_close)
{
	feed_send(feed, FRAME_CLOSE, true, "\x03\xf0your token\nhas expired", 24);
	await(listener_has_logged(listener, "closed the connection with 1008: your token?has expired"), SETTLED_MS);
}

/* This metric must be 0 or, once a message has come, a time of today. */
static bool has_metric(const char *name, bool is_today)
{
	double value = listener_metric(listener, name);

	return is_today ? value > (double)time(NULL) - 600 && value <= (double)time(NULL) : value == 0;
}

Test(source, the_time_of_its_last_message_is_told, .init = set_up, .fini = bench_close)
{
	cr_assert_eq(listener_metric(listener, "wsonce_sources"), 1);
	cr_assert_eq(listener_metric(listener, "wsonce_source_up"), 1);
	cr_assert(has_metric("wsonce_source_last_message_timestamp_seconds", false));
	cr_assert(!listener_page_has(listener, "/api/status", "silent_s"));
	bench_expect_heard(feed, "event_id", "one");
	cr_assert(has_metric("wsonce_source_last_message_timestamp_seconds", true));
	cr_assert(listener_page_has(listener, "/api/status", "\"silent_s\": "));
}

/* ---- silence ---- */

Test(source, one_that_freezes_is_left)
{
	start_connected("--ping-interval 1 --handshake-timeout 1");
	feed_freeze(feed);
	await(listener_status(listener, "/readyz") == 503, 8000);
	feed_thaw(feed);
	await(listener_status(listener, "/readyz") == 200, SETTLED_MS);
	bench_expect_heard(feed, "event_id", "after the thaw");
	bench_close();
}

/* Sent repeatedly, because the listener may disconnect at any moment and lose what is in transit. */
static bool is_heard_still(void)
{
	feed_send_text(feed, "{\"event_id\":\"still\"}");
	return wait_until(bench_rows() == 1, 200);
}

Test(source, with_an_idle_timeout_a_quiet_one_is_left_though_it_answers_pings)
{
	start_connected("--idle-timeout 1 --ping-interval 1");
	await(feed_connections(feed) >= 3, SETTLED_MS);
	await(is_heard_still(), SETTLED_MS);
	bench_close();
}

/* After a pause of the machine or the process, its timers run before it reads. */
Test(source, one_that_spoke_while_the_listener_stood_still_is_kept)
{
	start_connected("--idle-timeout 2 --ping-interval 1");
	process_signal(listener_process(listener), SIGSTOP);
	for (int i = 0; i < 200; i++)
		feed_sendf(feed, "{\"event_id\":\"meanwhile-%d\"}", i);
	cr_assert(feed_flush(feed, SETTLED_MS));
	wait_pause_ms(4000); /* it is more than the timeout and two intervals */
	process_signal(listener_process(listener), SIGCONT);
	wait_rows(200);
	for (int i = 0; i < 10; i++) { /* or its silence would end the connection */
		feed_sendf(feed, "{\"event_id\":\"later-%d\"}", i);
		cr_assert(!wait_until(feed_connections(feed) > 1, 100), "its connection is ended");
	}
	bench_close();
}

/* Two messages of 300 KiB take more than three eighths of 1 MiB, and the events of a third feed take the rest. */
Test(source, unfinished_messages_wait_while_postgres_is_away)
{
	struct feed *large[] = {feed_new(), feed_new()};
	char *head = suite_text("{\"event_id\":\"large\",\"payload\":\"%0*d", 300 << 10, 0);

	feed = feed_new();
	START("--source %s --source %s --max-inflight-bytes 1MiB --max-message 320KiB", feed_url(large[0]),
	      feed_url(large[1]));
	listener_wait_ready(listener);
	struct database *lock = fleet_lock(db);
	for (int i = 0; i < 2; i++)
		feed_send(large[i], FRAME_TEXT, false, head, strlen(head));
	await(listener_metric(listener, "wsonce_in_flight_bytes") > 600 << 10, SETTLED_MS);
	for (int i = 0; i < 100; i++)
		feed_sendf(feed, "{\"event_id\":\"small-%d\",\"payload\":\"%09000d\"}", i, 0);
	await(listener_metric(listener, "wsonce_paused") == 1, SETTLED_MS);
	cr_assert(!wait_until(feed_clients(large[0]) + feed_clients(large[1]) < 2, 3000), "one is ended");
	for (int i = 0; i < 2; i++)
		feed_send(large[i], FRAME_CONTINUATION, true, "\"}", 2);
	database_free(lock);
	wait_rows(101);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_unfinished_total"), 0);
	for (int i = 0; i < 2; i++)
		feed_free(large[i]);
	bench_close();
}

/* ---- messages ---- */

Test(source, messages_that_come_with_the_handshake_are_not_lost, .init = set_up, .fini = bench_close)
{
	for (int i = 0; i < 2000; i++)
		feed_sendf(feed, "{\"event_id\":\"burst-%d\",\"payload\":%d}", i, i);
	wait_rows(2000);
}

Test(source, what_was_sent_before_a_cut_is_stored, .init = set_up, .fini = bench_close)
{
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 50; i++)
			feed_sendf(feed, "{\"event_id\":\"cut-%d-%d\",\"payload\":\"%0200d\"}", round, i, i);
		cr_assert(feed_flush(feed, SETTLED_MS));
		feed_drop_all(feed);
		await(feed_connections(feed) == round + 2, SETTLED_MS);
	}
	wait_rows(250);
}

/* Lets the feed answer the handshake while the listener is frozen. It may have to send its request first. */
static bool is_answered_while_still(int connections)
{
	struct process *process = listener_process(listener);

	process_signal(process, SIGSTOP);
	feed_thaw(feed);
	if (wait_until(feed_connections(feed) == connections, 300))
		return true;
	feed_freeze(feed);
	process_signal(process, SIGCONT);
	wait_pause_ms(100);
	return false;
}

/* Everything is in the socket before the listener reads. */
Test(source, what_was_sent_with_the_answer_to_the_handshake_and_before_a_cut_is_stored, .init = set_up,
     .fini = bench_close)
{
	feed_freeze(feed);
	feed_drop_all(feed);
	await(is_answered_while_still(2), SETTLED_MS);
	for (int i = 0; i < 50; i++)
		feed_sendf(feed, "{\"event_id\":\"cut-%d\"}", i);
	cr_assert(feed_flush(feed, SETTLED_MS));
	feed_drop_all(feed);
	process_signal(listener_process(listener), SIGCONT);
	await(feed_connections(feed) == 3, SETTLED_MS);
	wait_rows(50);
}

/* ---- secrets ---- */

Test(source, user_and_password_become_basic_authorization_and_are_shown_nowhere)
{
	struct feed *guarded = feed_new();

	START("--log-level debug --source ws://us%%65r:p%%3Ass%%40word@127.0.0.1:%d/feed?key=topsecret&n=1",
	      feed_port(guarded));
	listener_wait_ready(listener);
	feed = guarded;
	bench_expect_heard(feed, "event_id", "one");
	char *request = feed_request(feed);
	char *value = frame_header(request, "Authorization");
	cr_assert_str_eq(value, "Basic dXNlcjpwOnNzQHdvcmQ=", "%s", request); /* user:p:ss@word */
	cr_assert(strncmp(request, "GET /feed?key=topsecret&n=1 HTTP/1.1\r\n", 38) == 0, "%s", request);
	feed_refuse(feed, 403);
	feed_drop_all(feed);
	await(listener_page_has(listener, "/readyz", "not ready"), SETTLED_MS);
	static const char *const secrets[] = {"us%65r", "p%3Ass", "p:ss", "topsecret", "dXNlcjpw"};
	for (int i = 0; i < 5; i++) {
		cr_assert(!listener_has_logged(listener, secrets[i]), "%s",
			  process_last_words(listener_process(listener)));
		cr_assert(!listener_page_has(listener, "/api/status", secrets[i]));
		cr_assert(!listener_page_has(listener, "/readyz", secrets[i]));
		cr_assert(!listener_page_has(listener, "/metrics", secrets[i]));
	}
	bench_close();
}

/* ---- TLS ---- */

static struct certificate *authority;
static struct relay *front;

/* A feed behind TLS, whose certificate is for these names. */
static void start_tls(const char *names, const char *ca, const char *host)
{
	struct certificate *server =
		certificate_new_of(authority, &(struct certificate_text){.subject = "/CN=localhost", .names = names});
	struct feed *plain = feed_new();

	front = relay_new_in_front(feed_port(plain), server);
	START("--log-level debug --source-ca %s --handshake-timeout 2 --source wss://%s:%d/feed", ca, host,
	      relay_port(front));
	feed = plain;
}

static void tear_down_tls(void)
{
	cr_assert_eq(listener_stop(listener), 0);
}

Test(source, a_feed_by_tls_is_heard)
{
	authority = certificate_authority_new();
	start_tls("DNS:localhost", authority->cert, "localhost");
	listener_wait_ready(listener);
	bench_expect_heard(feed, "event_id", "by-tls");
	for (int i = 0; i < 500; i++)
		feed_sendf(feed, "{\"event_id\":\"burst-%d\",\"payload\":\"%01000d\"}", i, i);
	wait_rows(501);
	feed_drop_all(feed);
	await(feed_connections(feed) == 2, SETTLED_MS);
	bench_expect_heard(feed, "event_id", "again");
	tear_down_tls();
}

/* The listener says why, tries again and again, and nothing is heard. Where localhost is ::1 first, every other attempt
 * finds nobody. */
static void expect_distrust(const char *names, const char *ca, const char *host)
{
	start_tls(names, ca, host);
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 2, SETTLED_MS);
	await(listener_page_has(listener, "/api/status", "ertificate") ||
		      listener_page_has(listener, "/api/status", "ostname"),
	      SETTLED_MS, "%s", listener_http(listener, "/api/status", NULL));
	await(listener_has_logged(listener, "ertificate") || listener_has_logged(listener, "ostname"), SETTLED_MS, "%s",
	      process_last_words(listener_process(listener)));
	cr_assert_eq(listener_status(listener, "/readyz"), 503);
	cr_assert_eq(feed_connections(feed), 0);
	tear_down_tls();
}

/* Of an unknown authority, of another host, of one that is named only as its common name, of another address. */
Test(source, a_certificate_that_is_not_for_the_host_is_not_trusted)
{
	struct certificate *stranger = certificate_authority_new();

	authority = certificate_authority_new();
	expect_distrust("DNS:localhost", stranger->cert, "localhost");
	expect_distrust("DNS:other.example", authority->cert, "localhost");
	expect_distrust(NULL, authority->cert, "localhost");
	expect_distrust("IP:127.0.0.9,DNS:localhost", authority->cert, "127.0.0.1");
}

Test(source, a_feed_without_tls_is_not_taken_for_one_with_it)
{
	struct feed *plain = feed_new();

	authority = certificate_authority_new();
	START("--log-level debug --source-ca %s --handshake-timeout 2 --source wss://localhost:%d/feed",
	      authority->cert, feed_port(plain));
	feed = plain;
	await(listener_status(listener, "/healthz") == 200 &&
		      listener_metric(listener, "wsonce_source_disconnects_total") >= 2,
	      SETTLED_MS);
	cr_assert_eq(listener_status(listener, "/readyz"), 503);
	cr_assert_eq(feed_connections(feed), 0);
	tear_down_tls();
}
