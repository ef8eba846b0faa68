/* The admin pages: health, readiness, metrics and status. They contain no secrets, and no request harms the
 * listener. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 15000

static void set_up(void)
{
	bench_start("%s", "");
}

/* True if a page answers with this status and a body that contains this text. */
static bool has_answer(const char *path, int expected, const char *text)
{
	int status;
	char *body = listener_http(listener, path, &status);
	return body && status == expected && strstr(body, text);
}

/* Waits for that answer. */
static void expect_answer(const char *path, int expected, const char *text)
{
	if (wait_until(has_answer(path, expected, text), SETTLED_MS))
		return;
	int status;
	char *body = listener_http(listener, path, &status);
	cr_assert_fail("%s answers %d \"%s\", not %d with \"%s\"", path, status, body ? body : "", expected, text);
}

/* ---- health and readiness ---- */

Test(admin, without_redis_a_listener_is_degraded)
{
	struct redisd *redis = redisd_new();

	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db, .redis = redisd_url(redis)}, NULL);
	expect_answer("/readyz", 200, "ready");
	redisd_stop(redis);
	expect_answer("/readyz", 200, "degraded");
	expect_answer("/readyz", 200, "redis");
	cr_assert_eq(listener_metric(listener, "wsonce_redis_up"), 0);
	cr_assert_eq(listener_status(listener, "/healthz"), 200);
	redisd_start(redis);
	await(!has_answer("/readyz", 200, "degraded"), SETTLED_MS);
	expect_answer("/readyz", 200, "ready");
	bench_close();
}

/* A cluster node also refuses keys that belong to other nodes. */
static bool is_refused(int i)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);

	peer_sendf(p, "{\"event_id\":\"refused-%d\"}", i);
	peer_free(p);
	return wait_until(has_answer("/readyz", 200, "degraded: redis does not take every command"), 200);
}

Test(admin, where_redis_refuses_claims_a_listener_is_degraded)
{
	struct redisd *redis = redisd_new();
	int events = 0;

	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db, .redis = redisd_url(redis)}, NULL);
	redisd_command(redis, "CONFIG SET maxmemory 1");
	await(is_refused(events++), SETTLED_MS);
	redisd_command(redis, "CONFIG SET maxmemory 0");
	await(listener_metric(listener, "wsonce_redis_up") == 1, SETTLED_MS);
	expect_answer("/readyz", 200, "ready");
	bench_close();
}

Test(admin, with_redis_none_a_listener_is_not_degraded)
{
	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db, .redis = "none"}, NULL);
	cr_assert(has_answer("/readyz", 200, "ready"));
	cr_assert(!has_answer("/readyz", 200, "degraded"));
	cr_assert(!has_answer("/metrics", 200, "wsonce_redis_up"), "nor is anything down");
	cr_assert(has_answer("/api/status", 200, "\"redis\": \"none\""));
	cr_assert(!has_answer("/api/status", 200, "refuses"));
	bench_close();
}

Test(admin, without_postgres_a_listener_is_not_ready)
{
	struct postgres *postgres = postgres_new();

	listener = listener_start(&(struct listener_options){.postgres = postgres_conninfo(postgres)}, NULL);
	postgres_stop(postgres);
	expect_answer("/readyz", 503, "postgres");
	cr_assert_eq(listener_status(listener, "/healthz"), 200);
	cr_assert_eq(listener_metric(listener, "wsonce_postgres_up"), 0);
	cr_assert(!has_answer("/api/status", 200, "\"trouble\": \"\""));
	postgres_start(postgres);
	expect_answer("/readyz", 200, "ready");
	cr_assert_eq(listener_stop(listener), 0);
}

Test(admin, without_its_source_a_listener_is_not_ready)
{
	int port = port_reserve();

	db = database_new();
	char *url = suite_text("ws://127.0.0.1:%d/feed", port);
	listener = listener_start(
		&(struct listener_options){
			.database = db, .source = url, .without_ingest = true, .without_waiting = true},
		NULL);
	expect_answer("/readyz", 503, "source");
	expect_answer("/readyz", 503, "source 127.0.0.1#1: down: the connection failed: connection refused\n");
	cr_assert_eq(listener_status(listener, "/healthz"), 200);
	struct feed *feed = feed_new_at(port);
	expect_answer("/readyz", 200, "ready");
	feed_refuse(feed, 503);
	feed_drop_all(feed);
	expect_answer("/readyz", 503, "503"); /* what the feed answered */
	feed_free(feed);
	bench_close();
}

/* ---- metrics ---- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

Test(admin, metrics_say_their_content_type, .init = set_up, .fini = bench_close)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	char *answer = http_ask(listener_admin_port(listener), request, sizeof request - 1, 5000);

	cr_assert(strcasestr(answer, "\r\ncontent-type: text/plain; version=0.0.4"), "%.300s", answer);
}

/* 0.08, not 0.080000000000000002. The seconds of CPU time have six decimals. */
Test(admin, metrics_have_no_more_digits_than_people_write, .init = set_up, .fini = bench_close)
{
	for (int i = 0; i < 5; i++) {
		char *rest = listener_http(listener, "/metrics", NULL);

		for (char *line; (line = strsep(&rest, "\n"));)
			cr_assert(!*line || *line == '#' || strspn(strrchr(line, ' ') + 1, "0123456789.") <= 16, "%s",
				  line);
	}
}

/* The buckets of a histogram never decrease, and the last equals its count. */
static void check_histogram(const char *name, double expected)
{
	char metric[100];
	char *body = listener_http(listener, "/metrics", NULL), *at = body;
	double last = 0, value;

	snprintf(metric, sizeof metric, "\n%s_bucket{le=", name);
	while ((at = strstr(at, metric))) {
		at = strchr(at, '}') + 2;
		value = strtod(at, NULL);
		cr_assert_geq(value, last);
		last = value;
	}
	cr_assert_eq(last, expected);
	snprintf(metric, sizeof metric, "%s_count", name);
	cr_assert_eq(listener_metric(listener, metric), expected);
	snprintf(metric, sizeof metric, "%s_sum", name);
	cr_assert(listener_metric(listener, metric) >= 0);
}

static void send_of_each_kind(struct peer *p)
{
	for (int i = 0; i < 20; i++) {
		peer_sendf(p, "{\"event_id\":\"event-%d\"}", i);
		peer_sendf(p, "{\"event_id\":\"event-%d\"}", i);
		peer_sendf(p, "{\"no id\":%d}", i);
	}
	for (int i = 0; i < 60; i++)
		ack_read(p, SETTLED_MS);
}

Test(admin, what_was_received_is_persisted_or_duplicate_or_dead_or_in_flight, .init = set_up, .fini = bench_close)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");

	send_of_each_kind(p);
	cr_assert_eq(bench_metric("wsonce_received_total"), 60);
	cr_assert_eq(bench_metric("wsonce_persisted_total"), 20);
	cr_assert_eq(bench_metric("wsonce_duplicates_total"), 20);
	cr_assert_eq(bench_metric("wsonce_dead_lettered_total"), 20);
	cr_assert_eq(bench_metric("wsonce_in_flight"), 0);
	cr_assert_eq(bench_metric("wsonce_in_flight_bytes"), 0);
	cr_assert_eq(bench_metric("wsonce_events"), 0);
	cr_assert_eq(bench_metric("wsonce_acks_sent_total"), 60);
	cr_assert_eq(bench_metric("wsonce_ingest_connections"), 1);
	check_histogram("wsonce_commit_latency_seconds", 20);
	peer_free(p);
	await(bench_metric("wsonce_ingest_connections") == 0, SETTLED_MS);
}

/* A page is a snapshot, so the four counters always add up. */
static bool is_balanced(const char *body)
{
	static const char *const names[] = {"\nwsonce_received_total ", "\nwsonce_persisted_total ",
					    "\nwsonce_duplicates_total ", "\nwsonce_dead_lettered_total ",
					    "\nwsonce_in_flight "};
	double values[5];

	for (int i = 0; i < 5; i++) {
		const char *at = strstr(body, names[i]);

		cr_assert(at, "no%s", names[i] + 1);
		values[i] = strtod(at + strlen(names[i]), NULL);
	}
	return values[0] == values[1] + values[2] + values[3] + values[4];
}

Test(admin, the_counters_add_up_at_any_moment, .init = set_up, .fini = bench_close)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 300; i++)
			peer_sendf(p, i % 10 ? "{\"event_id\":%d}" : "{\"garbage\":%d}", round * 200 + i);
		char *body = listener_http(listener, "/metrics", NULL);
		cr_assert(body && is_balanced(body), "%s", body);
	}
	await(bench_metric("wsonce_received_total") == 6000 && bench_metric("wsonce_in_flight") == 0, SETTLED_MS);
	peer_free(p);
}

Test(admin, what_is_in_flight_while_postgres_stands_still_is_counted)
{
	struct postgres *postgres = postgres_new();

	listener = listener_start(&(struct listener_options){.postgres = postgres_conninfo(postgres)}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
	postgres_pause(postgres);
	for (int i = 0; i < 10; i++)
		peer_sendf(p, "{\"event_id\":\"waiting-%d\"}", i % 9);
	await(bench_metric("wsonce_in_flight") == 10, SETTLED_MS);
	cr_assert_eq(bench_metric("wsonce_received_total"), 10);
	cr_assert_eq(bench_metric("wsonce_events"), 9);
	cr_assert_gt(bench_metric("wsonce_in_flight_bytes"), 0);
	postgres_resume(postgres);
	await(bench_metric("wsonce_in_flight") == 0, SETTLED_MS);
	cr_assert_eq(bench_metric("wsonce_persisted_total"), 9);
	cr_assert_eq(bench_metric("wsonce_duplicates_total"), 1);
	peer_free(p);
	cr_assert_eq(listener_stop(listener), 0);
}

/* ---- status ---- */

Test(admin, status_is_json_though_a_text_is_not_utf8)
{
	static const char *const env[] = {"WSONCE_INSTANCE_ID=caf\xe9 \"quoted\"", NULL};

	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db, .env = env}, NULL);
	char *body = listener_http(listener, "/api/status", NULL);
	json_t *root = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(root, "instance_id"));

	cr_assert(name && strcmp(name, "caf? \"quoted\"") == 0, "%s", body);
	cr_assert(json_is_string(json_object_get(root, "version")));
	cr_assert(json_is_integer(json_object_get(root, "uptime_s")));
	cr_assert_str_eq(json_string_value(json_object_get(root, "trouble")), "");
	cr_assert(!json_object_get(root, "settled_us"), "it takes a look at each event that is held");
	cr_assert(json_is_integer(json_object_get(json_object_get(root, "counters"), "persisted")));
	bench_close();
}

/* ---- requests of all kinds ---- */

/* Sends a request to the admin port. Its answer must begin with this, and the listener must survive. */
static void expect_reply(const char *request, size_t len, const char *beginning)
{
	char *answer = http_ask(listener_admin_port(listener), request, len, 5000);

	cr_assert(answer && strncmp(answer, beginning, strlen(beginning)) == 0, "%.60s: %.200s", request, answer);
	cr_assert_eq(listener_status(listener, "/healthz"), 200);
}

static void expect_reply_to(const char *method, const char *path, const char *headers, const char *beginning)
{
	char *request;
	int len = asprintf(&request, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", method, path,
			   headers);

	expect_reply(request, (size_t)len, beginning);
}

Test(admin, only_get_and_head_of_its_pages_are_answered, .init = set_up, .fini = bench_close)
{
	static const char *const absent[] = {"/",         "/page.js",       "/api/stream", "/nothing",
					     "/metrics/", "/healthz/x",     "/api",        "/api/status/x",
					     "/events",   "/../etc/passwd", "/HEALTHZ"};
	static const char request[] = "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	char *answer = http_ask(listener_admin_port(listener), request, sizeof request - 1, 5000);

	cr_assert(strncmp(answer, "HTTP/1.1 200", 12) == 0, "%s", answer);
	cr_assert(ends_with(answer, "\r\n\r\n"), "%s", answer);
	expect_reply_to("HEAD", "/nothing", "", "HTTP/1.1 404");
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		expect_reply_to("GET", absent[i], "", "HTTP/1.1 404");
	expect_reply_to("GET", "/healthz?verbose=1", "", "HTTP/1.1 200");
	expect_reply_to("GET", "/metrics?name[]=x&y", "", "HTTP/1.1 200");
	expect_reply_to("POST", "/healthz", "Content-Length: 0\r\n", "HTTP/1.1 405");
	expect_reply_to("POST", "/api/status", "Content-Length: 2\r\n", "HTTP/1.1 405");
	expect_reply_to("PUT", "/api/status", "Content-Length: 0\r\n", "HTTP/1.1 405");
	expect_reply_to("DELETE", "/", "", "HTTP/1.1 405");
}

Test(admin, another_origin_is_refused_and_a_page_that_uses_ours, .init = set_up, .fini = bench_close)
{
	static const char *const paths[] = {"/", "/api/status", "/metrics", "/healthz"};

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		expect_reply_to("GET", paths[i], "Origin: http://evil.example\r\n", "HTTP/1.1 403");
		expect_reply_to("GET", paths[i], "Origin: null\r\n", "HTTP/1.1 403");
		expect_reply_to("GET", paths[i], "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
				"HTTP/1.1 403");
	}
	expect_reply_to("GET", "/api/status", "Origin: http://localhost\r\n", "HTTP/1.1 200");
	expect_reply_to("GET", "/", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", "HTTP/1.1 404");
	for (size_t i = 1; i < sizeof paths / sizeof *paths; i++)
		expect_reply_to("GET", paths[i], "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
				"HTTP/1.1 403");
}

Test(admin, a_websocket_is_not_opened, .init = set_up, .fini = bench_close)
{
	int status;

	cr_assert_null(peer_open(listener_admin_port(listener), "/healthz", NULL, NULL, &status));
	cr_assert_neq(status, 101);
	cr_assert_eq(listener_status(listener, "/healthz"), 200);
}

Test(admin, connect_is_refused_and_its_connection_ends, .init = set_up, .fini = bench_close)
{
	static const char request[] = "CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\nmore";
	int64_t begin = wait_now_ms();
	char *answer = http_ask(listener_admin_port(listener), request, sizeof request - 1, 8000);

	cr_assert(strncmp(answer, "HTTP/1.1 405 ", 13) == 0, "%s", answer);
	cr_assert_lt(wait_now_ms() - begin, wait_stretch_ms(8000), "the connection stays");
}

static void expect_status_for_host(const char *host, int expected)
{
	char request[400];
	int len = snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\n%s%s%sConnection: close\r\n\r\n",
			   host ? "Host: " : "", host ? host : "", host ? "\r\n" : "");
	char *answer = http_ask(listener_admin_port(listener), request, (size_t)len, 5000);
	int status = 0;

	sscanf(answer, "HTTP/1.1 %d", &status);
	cr_assert_eq(status, expected, "Host: %s: %.200s", host, answer);
}

/* DNS rebinding: the name of an attacker's page resolves to our address, and its script sends requests with that
 * name. */
Test(admin, only_names_that_are_ours_are_answered)
{
	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db},
				  "--admin-host wsonce-1 --admin-host Listener.example");
	expect_status_for_host("localhost", 200);
	expect_status_for_host("LOCALHOST:9090", 200);
	expect_status_for_host("127.0.0.1:9090", 200);
	expect_status_for_host("10.1.2.3", 200);
	expect_status_for_host("[::1]:9090", 200);
	expect_status_for_host("wsonce-1:80", 200);
	expect_status_for_host("listener.example", 200);
	expect_status_for_host("attacker.example", 403);
	expect_status_for_host("localhost.attacker.example:9090", 403);
	expect_status_for_host("127.0.0.1.attacker.example", 403);
	expect_status_for_host("127.0.0.1:9090.attacker.example", 403);
	expect_status_for_host("[::1].attacker.example", 403);
	expect_status_for_host("", 403);
	expect_status_for_host(NULL, 400);
	bench_close();
}

/* One address must not take all connections. */
Test(admin, one_address_has_half_of_the_places_and_its_oldest_makes_room, .init = set_up, .fini = bench_close)
{
	struct peer *peers[33];

	for (int i = 0; i < 33; i++)
		peers[i] = peer_dial(listener_admin_port(listener));
	cr_assert_null(peer_recv(peers[0], 5000));
	cr_assert(!peer_is_open(peers[0]), "the oldest of 33 connections is kept");
	cr_assert(peer_is_open(peers[32]), "the newest of 33 connections is not kept");
	expect_answer("/healthz", 200, "alive");
	for (int i = 0; i < 33; i++)
		peer_free(peers[i]);
}

/* Asks once. */
static void expect_probe(void)
{
	const char *request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
	struct pollfd wait = {.fd = port_connect_from("127.0.0.4", listener_admin_port(listener)), .events = POLLIN};
	char answer[13] = "";

	cr_assert_gt(write(wait.fd, request, strlen(request)), 0);
	cr_assert_eq(poll(&wait, 1, SETTLED_MS), 1);
	cr_assert_eq(recv(wait.fd, answer, sizeof answer - 1, 0), 12);
	cr_assert_str_eq(answer, "HTTP/1.1 200");
	close(wait.fd);
}

Test(admin, probes_get_through_beside_idle_connections_of_two_addresses, .init = set_up, .fini = bench_close)
{
	int idle[2][34], port = listener_admin_port(listener);

	for (int i = 0; i < 34; i++) {
		idle[0][i] = port_connect_from("127.0.0.2", port);
		idle[1][i] = port_connect_from("127.0.0.3", port);
	}
	for (int i = 0; i < 34; i++) {
		expect_probe();
		close(idle[0][i]); /* and connects again */
		close(idle[1][i]);
		idle[0][i] = port_connect_from("127.0.0.2", port);
		idle[1][i] = port_connect_from("127.0.0.3", port);
	}
	for (int i = 0; i < 34; i++) {
		close(idle[0][i]);
		close(idle[1][i]);
	}
}

#define TOKENS  1000
#define ASKING  60
#define PER_ONE 50

/* Each token has lines in /metrics. The loop serves others long before all pages are written. */
Test(admin, many_large_pages_do_not_keep_others_waiting, .fini = bench_close)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char lines[TOKENS * 40] = "", requests[PER_ONE * sizeof request] = "", *at = lines;
	int fds[ASKING];

	for (int i = 0; i < TOKENS; i++)
		at += sprintf(at, "shop-%d a-long-enough-token-%d\n", i, i);
	for (int i = 0; i < PER_ONE; i++)
		strcat(requests, request);
	bench_start("--ingest-token-file %s", suite_file("tokens", lines));
	int64_t began = wait_now_ms();
	for (int i = 0; i < 10; i++)
		free(http_get(listener_admin_port(listener), "/metrics", 5000, NULL));
	int64_t ten_ms = wait_now_ms() - began;
	for (int i = 0; i < ASKING; i++) {
		char *from = suite_text("127.0.0.%d", 2 + i % 4);

		fds[i] = port_connect_from(from, listener_admin_port(listener));
	}
	for (int i = 0; i < ASKING; i++)
		cr_assert_gt(send(fds[i], requests, strlen(requests), MSG_DONTWAIT), 0);
	began = wait_now_ms();
	cr_expect_eq(http_handshake(listener_ingest_port(listener), ""), 401);
	cr_expect_lt(wait_now_ms() - began, 40 * ten_ms, "after %lld ms; ten pages take %lld ms",
		     (long long)(wait_now_ms() - began), (long long)ten_ms);
	for (int i = 0; i < ASKING; i++)
		close(fds[i]);
}

Test(admin, without_descriptors_a_request_waits, .init = set_up, .fini = bench_close)
{
	static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char answer[200] = "";

	process_limit_files(listener_process(listener), 8);
	int fd = port_connect(listener_admin_port(listener), 5000);
	cr_assert_eq(send(fd, request, sizeof request - 1, 0), (ssize_t)sizeof request - 1);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	cr_assert_eq(poll(&ready, 1, 300), 0, "answered without a descriptor");
	process_limit_files(listener_process(listener), 1000);
	cr_assert_eq(poll(&ready, 1, (int)wait_stretch_ms(5000)), 1, "not answered");
	cr_assert_gt(recv(fd, answer, sizeof answer - 1, 0), 0);
	cr_assert(strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "%s", answer);
	close(fd);
}

Test(admin, one_connection_may_ask_often, .init = set_up, .fini = bench_close)
{
	static const char two[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
				  "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	char *answer = http_ask(listener_admin_port(listener), two, sizeof two - 1, 5000);

	cr_assert(strstr(answer, "alive\n") && strstr(answer, "ready\n"), "%s", answer);
}
