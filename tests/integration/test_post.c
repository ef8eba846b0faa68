/* Producers without WebSocket: POST /events, answered when all its events are committed. */
#include "support.h"
#include "bench.h"
#include <zlib.h>

#define WAIT_MS 20000

static int port;

static __attribute__((format(printf, 1, 2))) void start(const char *flags, ...)
{
	va_list args;

	va_start(args, flags);
	char *text = suite_vtext(flags, args);
	va_end(args);
	port = port_reserve();
	listener =
		listener_start(&(struct listener_options){.database = db}, "--ingest-http 127.0.0.1:%d %s", port, text);
}

TestSuite(post, .init = bench_open, .fini = bench_close, .timeout = 120);

/* A socket that waits. */
static int connect_to_it(void)
{
	int fd = port_connect(port, WAIT_MS);

	cr_assert_geq(fd, 0);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

/* Sends a raw request. Returns the whole answer. */
static char *ask(const char *head, const char *body)
{
	char *request = suite_text("%s\r\n%s", head, body), *answer = http_ask(port, request, strlen(request), WAIT_MS);

	cr_assert_not_null(answer, "no answer to %s", head);
	return answer;
}

static char *post(const char *headers, const char *body)
{
	return http_post(port, headers, body);
}

static void expect_status(const char *answer, int status)
{
	int got = http_status(answer);

	cr_assert_eq(got, status, "%d, not %d: %s", got, status, answer);
}

static long count(const char *sql)
{
	return bench_count("%s", sql);
}

/* ---- what is answered ---- */

Test(post, one_event_is_answered_after_its_commit)
{
	start("--log-level info");
	http_expect(post("", "{\"event_id\":\"one\",\"event_type\":\"t\",\"payload\":0.10}"),
		    "[\n{\"event_id\":\"one\",\"status\":\"persisted\",\"n\":1}\n]\n");
	cr_assert_eq(count("events WHERE event_id = 'one' AND payload::text = '0.10'"), 1);
	http_expect(post("", "{\n  \"event_id\":\n  \"one\"\n}\n"),
		    "[\n{\"event_id\":\"one\",\"status\":\"duplicate\",\"n\":1}\n]\n");
}

Test(post, each_line_is_an_event_and_has_its_status)
{
	start("--log-level info");
	const char *answer = post("Content-Type: application/x-ndjson; charset=utf-8\r\n",
				  "{\"event_id\":\"a\"}\r\n\n{\"event_id\":\"b\"}\nbad\n{\"event_id\":\"a\"}\n");

	expect_status(answer, 200);
	cr_assert(strstr(answer, "{\"event_id\":\"a\",\"status\":\"persisted\",\"n\":1},\n"
				 "{\"event_id\":\"b\",\"status\":\"persisted\",\"n\":3},\n"
				 "{\"event_id\":null,\"status\":\"rejected\",\"reason\":\""),
		  "%s", answer);
	cr_assert(strstr(answer, "\"n\":4},\n{\"event_id\":\"a\",\"status\":\"duplicate\",\"n\":5}\n]\n"), "%s",
		  answer);
	cr_assert_eq(bench_rows(), 2);
	cr_assert_eq(count("dead_letters WHERE raw = 'bad'"), 1);
}

Test(post, what_is_said_to_be_one_event_is_not_cut_into_lines)
{
	start("--log-level info");
	expect_status(post("Content-Type: application/json\r\n", "{\"event_id\":\n\"a\"\n"), 200);
	cr_assert_eq(count("dead_letters"), 1);
}

Test(post, request_without_a_host_gets_one_head)
{
	start("--log-level info");
	char *answer =
		ask("POST /events HTTP/1.1\r\nConnection: close\r\nContent-Length: 16\r\n", "{\"event_id\":\"e\"}");

	expect_status(answer, 400);
	cr_assert(!strstr(answer + 1, "HTTP/1.1 400"), "%s", answer);
	cr_assert(strstr(answer, "Host"), "it is not said: %s", answer); /* libmicrohttpd 1.0 says it itself */
}

/* RFC 9110, section 5.1; RFC 9112, section 6.1. */
Test(post, odd_bytes_in_names_and_chunks_in_http_1_0_are_malformed)
{
	static const char *const names[] = {"X\x01: a\r\n", "X\xe9: a\r\n", "X{: a\r\n"};

	start("--log-level info");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_status(post(names[i], "{\"event_id\":\"e\"}"), 400);
	expect_status(ask("POST /events HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
			  "10\r\n{\"event_id\":\"e\"}\r\n0\r\n\r\n"),
		      400);
	cr_assert_eq(bench_rows(), 0);
}

Test(post, nothing_runs_behind_a_header_without_a_name)
{
	static const char *const lines[] = {": c\r\n", ":\r\n", "A: b\r\n: c\r\n", "A: b\n:c\n", ":\n"};

	start("--log-level info");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n";
		const char *answer = ask(suite_text("%s%sZ: 4567890123\r\n", head, lines[i]),
					 "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
		cr_assert(http_status(answer) == 400 || i == 4);
		cr_assert(!strstr(answer + 1, "HTTP/1.1 4"), "%s", answer);
	}
	expect_status(post("X-Blank: a  \r\n", "{\"event_id\":\"e\"}"), 200);
	expect_status(post("X-Empty:\r\n", "{\"event_id\":\"e\"}"), 200);
}

/* libmicrohttpd 1.0 refuses the footer without a name, and lines without a carriage return. */
Test(post, nothing_runs_behind_chunks)
{
	static const char second[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	static const char *const ends[] = {"\r\n0\r\nA: b\r\n: c\r\n", "\n0\n\n", "\r\n0\r\n\r\n"};

	start("--log-level info");
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const char *answer = ask("POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n",
					 suite_text("10\r\n{\"event_id\":\"e\"}%s%s%s", ends[i], second, second));
		if (i == 2 || http_status(answer) != 400)
			expect_status(answer, 200);
		cr_assert(!strstr(answer + 1, "HTTP/1.1 "), "%s", answer);
	}
}

Test(post, header_with_a_bare_carriage_return_is_malformed)
{
	start("--log-level info");
	expect_status(post("X-Odd: a\rb\r\n", "{\"event_id\":\"e\"}"), 400);
	expect_status(post("X\rOdd: a\r\n", "{\"event_id\":\"e\"}"), 400);
	cr_assert_eq(bench_rows(), 0);
}

Test(post, there_is_no_answer_before_the_commit)
{
	start("--log-level info");
	struct database *lock = fleet_lock(db);
	struct peer *p = peer_dial(port);
	const char *request = "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"event_id\":\"e\"}";

	peer_send_raw(p, request, strlen(request));
	await(listener_metric(listener, "wsonce_received_total") == 1, WAIT_MS);
	struct peer *other = peer_dial(port);
	peer_send_raw(other, request, strlen(request));
	await(listener_metric(listener, "wsonce_received_total") == 2, WAIT_MS);
	peer_reset(other);
	cr_assert_eq(listener_metric(listener, "wsonce_in_flight"), 2);
	fleet_unlock(lock);
	await(bench_rows() == 1, WAIT_MS);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
	peer_free(p);
	peer_free(other);
	http_expect(post("", "{\"event_id\":\"e\"}"), "[\n{\"event_id\":\"e\",\"status\":\"duplicate\",\"n\":1}\n]\n");
}

Test(post, a_listener_that_drains_answers_what_it_has_taken_and_refuses_the_rest)
{
	const char *request = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 16\r\n\r\n"
			      "{\"event_id\":\"e\"}";
	struct database *lock;
	char answer[600] = "";
	size_t len = 0;

	start("--drain-timeout 20");
	lock = fleet_lock(db);
	int fd = connect_to_it();
	cr_assert_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	await(listener_metric(listener, "wsonce_received_total") == 1, WAIT_MS);
	process_signal(listener_process(listener), SIGTERM);
	await(listener_has_logged(listener, "draining"), WAIT_MS);
	expect_status(post("", "{\"event_id\":\"late\"}"), 503);
	fleet_unlock(lock);
	for (ssize_t n; (n = read(fd, answer + len, sizeof answer - 1 - len)) > 0; len += (size_t)n)
		;
	http_expect(answer, "[\n{\"event_id\":\"e\",\"status\":\"persisted\",\"n\":1}\n]\n");
	cr_assert_eq(process_wait(listener_process(listener), WAIT_MS), 0);
	listener_free(listener);
	listener = NULL;
}

Test(post, who_waits_for_what_is_given_up_is_told_so)
{
	const char *request = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 16\r\n\r\n"
			      "{\"event_id\":\"e\"}";
	struct database *lock;
	char answer[600] = "";
	size_t len = 0;

	start("--drain-timeout 1");
	lock = fleet_lock(db);
	int fd = connect_to_it();
	cr_assert_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	await(listener_metric(listener, "wsonce_received_total") == 1, WAIT_MS);
	process_signal(listener_process(listener), SIGTERM);
	for (ssize_t n; (n = read(fd, answer + len, sizeof answer - 1 - len)) > 0; len += (size_t)n)
		;
	expect_status(answer, 503);
	cr_assert(strstr(answer, "send it again"), "%s", answer);
	cr_assert_eq(process_wait(listener_process(listener), WAIT_MS), 1);
	fleet_unlock(lock);
	listener_free(listener);
	listener = NULL;
}

/* ---- by a profile ---- */

Test(post, a_profile_reads_lines_too)
{
	char *profile =
		suite_file("sink.json", "{\"name\": \"pairs\", \"ack\": 1, \"default\": \"ignore\", \"rules\": ["
					"{\"when\": {\"/list\": {\"type\": \"array\"}}, \"action\": \"event\", "
					"\"explode\": \"/list/*\", \"id\": [[\"=p\", \"\"]]}]}");

	start("--ingest-profile %s", profile);
	http_expect(post("", "{\"list\":[1,2]}\n{\"ping\":1}\n"),
		    "[\n{\"event_id\":\"p|1\",\"status\":\"persisted\",\"n\":1},\n"
		    "{\"event_id\":\"p|2\",\"status\":\"persisted\",\"n\":1},\n"
		    "{\"event_id\":null,\"status\":\"ignored\",\"n\":2}\n]\n");
}

/* ---- who may send, and what ---- */

/* As of a message that is not posted: each would take 600 bytes of memory for two of the body. */
Test(post, lines_of_a_profile_have_no_more_events_than_a_message)
{
	char *line = malloc(18100), *at = line, *profile;

	at += sprintf(at, "{\"list\":[0");
	for (int i = 1; i < 9000; i++)
		at += sprintf(at, ",0");
	sprintf(at, "]}");
	profile = suite_file("sink.json", "{\"name\": \"sink\", \"ack\": 1, \"rules\": [{\"action\": \"event\", "
					  "\"explode\": \"/list/*\", \"id\": [[\"@\"]]}]}");
	start("--ingest-profile %s", profile);
	expect_status(post("", suite_text("%s\n%s\n%s\n", line, line, line)), 200);
	cr_assert_eq(bench_count("events"), 9000);
	cr_assert_eq(bench_count("dead_letters WHERE reason LIKE '%%too many events for the length%%'"), 1);
}

/* All of these types would take 300 MB. */
Test(post, lines_of_a_profile_repeat_no_more_than_a_message)
{
	char *body = malloc(200000), *at = body;

	at += sprintf(at, "{\"v\":\"%060000d\"}\n", 7);
	for (int i = 0; i < 5000; i++)
		at += sprintf(at, "{\"id\":%d}\n", i);
	start("--ingest-profile %s",
	      suite_file(
		      "sink.json",
		      "{\"name\": \"sink\", \"ack\": 1, \"default\": \"ignore\", \"rules\": [{\"when\": {\"/v\": "
		      "{\"exists\": true}}, \"capture\": {\"v\": \"/v\"}}, {\"when\": {\"/id\": {\"exists\": true}}, "
		      "\"action\": \"event\", \"id\": [[\"/id\"]], \"type\": \"$v\"}]}"));
	expect_status(post("", body), 200);
	cr_assert_eq(bench_count("events") + bench_count("dead_letters WHERE reason LIKE '%%what each repeats'"), 5000);
	cr_assert_lt(bench_count("events"), 1000);
}

Test(post, tokens_are_demanded_and_not_logged)
{
	start("--ingest-token a-token-of-16-bytes --log-level debug");
	const char *answer = post("", "{\"event_id\":\"e\"}");

	expect_status(answer, 401);
	cr_assert(strstr(answer, "WWW-Authenticate: Bearer\r\n"));
	expect_status(post("Authorization: Bearer a-token-of-16-byte\r\n", "{\"event_id\":\"e\"}"), 401);
	expect_status(post("Authorization: Bearer a-token-of-16-bytes\r\n", "{\"event_id\":\"e\"}"), 200);
	cr_assert_eq(bench_rows(), 1);
	cr_assert_eq(listener_metric(listener, "wsonce_token_messages_total{token=\"default\"}"), 1);
	cr_assert(!listener_has_logged(listener, "a-token-of-16"));
}

Test(post, pages_in_browsers_need_an_origin_that_is_allowed)
{
	start("--ingest-origin https://shop.example");
	expect_status(post("Origin: https://evil.example\r\n", "{\"event_id\":\"e\"}"), 403);
	expect_status(post("Origin: null\r\n", "{\"event_id\":\"e\"}"), 403);
	expect_status(post("Origin: https://shop.example\r\n", "{\"event_id\":\"e\"}"), 200);
}

Test(post, wrong_requests_are_refused)
{
	static const char type[] = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";

	start("--max-message 1KiB");
	expect_status(ask(suite_text("GET /events %s", type), ""), 405);
	expect_status(ask(suite_text("POST /else %sContent-Length: 2\r\n", type), "{}"), 404);
	expect_status(ask(suite_text("POST /events %sContent-Length: 1x\r\n", type), "{}"), 400);
	expect_status(ask(suite_text("POST /events %sContent-Length: 2\r\nContent-Length: 2\r\n", type), "{}"), 400);
	expect_status(ask(suite_text("POST /events %sContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", type), "{}"),
		      400);
	expect_status(post("", ""), 400);
	expect_status(post("", " \r\n\n"), 400);
	expect_status(post("", suite_text("{\"event_id\":\"e\",\"payload\":\"%01100d\"}", 0)), 413);
	cr_assert_eq(bench_rows(), 0);
	cr_assert_eq(listener_metric(listener, "wsonce_received_total"), 0);
	expect_status(post("", "\xff\xfe"), 200);
	cr_assert_eq(count("dead_letters WHERE reason LIKE '%UTF-8%'"), 1);
}

/* A proxy or client that cannot send its whole body never reads why it was refused: nginx answers 502. */
static void expect_refused_when_read(const char *headers, int status)
{
	static char body[8 << 20];
	char *head =
		suite_text("POST /events HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n", headers, sizeof(body));
	char answer[16] = "";
	int fd = connect_to_it();

	cr_assert_eq(send(fd, head, strlen(head), MSG_NOSIGNAL), (ssize_t)strlen(head));
	if (!strstr(headers, "Expect"))
		cr_assert_eq(send(fd, body, sizeof(body), MSG_NOSIGNAL), (ssize_t)sizeof(body), "%d: %m", status);
	cr_assert_eq(recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL), (ssize_t)sizeof(answer) - 1);
	expect_status(answer, status);
	close(fd);
}

Test(post, a_refused_body_is_read_to_its_end)
{
	static const char token[] = "Authorization: Bearer 0123456789abcdef\r\n";

	start("--ingest-token 0123456789abcdef");
	expect_refused_when_read("", 401);
	expect_refused_when_read(token, 413);
	expect_refused_when_read(suite_text("%sOrigin: https://evil.example\r\n", token), 403);
	expect_refused_when_read("Content-Encoding: zstd\r\n", 415);
	expect_refused_when_read(suite_text("%sExpect: 100-continue\r\n", token), 413);
	expect_status(post(token, "{\"event_id\":\"e\"}"), 200);
}

/* nginx and load balancers use a connection again that has been idle for less than a minute, and so does a client that
 * sends once a minute. */
Test(post, an_idle_connection_outlives_the_time_of_a_message)
{
	static const char request[] =
		"POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"event_id\":\"e\"}";
	char answer[4096];

	start("--message-timeout 1");
	int fd = connect_to_it();
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
		ssize_t len = recv(fd, answer, sizeof(answer) - 1, 0);
		cr_assert_gt(len, 0, "closed after %d answers", i);
		answer[len] = '\0';
		expect_status(answer, 200);
		sleep(4);
	}
	cr_assert_eq(send(fd, request, strlen(request) - 1, MSG_NOSIGNAL), (ssize_t)strlen(request) - 1);
	cr_assert_leq(recv(fd, answer, sizeof(answer), 0), 0, "a slow request has the time of a message");
	close(fd);
}

/* With any of these, a body could be read as another request. */
static void expect_refused_and_closed(const char *headers, int status)
{
	const char *body = "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
	char *answer = ask(suite_text("POST /events HTTP/1.1\r\nHost: x\r\n%s", headers), body);

	expect_status(answer, status);
	cr_assert_null(strstr(answer, "\nHTTP/1.1 "), "a second answer to %s: %s", headers, answer);
}

Test(post, a_body_without_a_plain_length_is_refused)
{
	start("--log-level info");
	expect_refused_and_closed("Content-Length:\r\n 54\r\n", 400);
	expect_refused_and_closed("Content-Length: 5\r\n\t4\r\n", 400);
	expect_refused_and_closed("content-length:\r\n 54\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding:\r\n chunked\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding: gzip, chunked\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding: identity\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding: xchunked\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding:\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400);
	expect_refused_and_closed("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", 400);
	cr_assert_eq(listener_metric(listener, "wsonce_received_total"), 0);
}

Test(post, a_body_of_another_coding_is_refused_and_no_dead_letter)
{
	start("--log-level info");
	const char *answer = post("Content-Encoding: br\r\n", "\x1f\x8b\n\n{");

	expect_status(answer, 415);
	cr_assert(strstr(answer, "Accept-Encoding: gzip\r\n"));
	expect_status(post("Content-Encoding: identity, br\r\n", "x"), 415);
	expect_status(post("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", "x"), 415);
	cr_assert_eq(count("dead_letters"), 0);
	expect_status(post("Content-Encoding: identity\r\n", "{\"event_id\":\"e\"}"), 200);
}

/* Sends gzip of text, of which `more` bytes are added at the end (negative: cut off). Returns the answer. */
static char *post_gzip(const char *text, int more)
{
	char packed[4096] = "", request[8192];
	z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
		      .avail_in = (uInt)strlen(text),
		      .next_out = (Bytef *)packed,
		      .avail_out = sizeof packed - 100};

	cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	int len = (int)z.total_out + more,
	    head = sprintf(request,
			   "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
			   "Content-Length: %d\r\n\r\n",
			   len);
	memcpy(request + head, packed, (size_t)len);
	return http_ask(port, request, (size_t)(head + len), WAIT_MS);
}

Test(post, a_gzipped_body_is_inflated_within_the_limit_of_messages)
{
	start("--max-message 1KiB");
	http_expect(post_gzip("{\"event_id\":\"a\"}\n{\"event_id\":\"b\"}\n", 0),
		    "[\n{\"event_id\":\"a\",\"status\":\"persisted\",\"n\":1},\n"
		    "{\"event_id\":\"b\",\"status\":\"persisted\",\"n\":2}\n]\n");
	expect_status(post_gzip(suite_text("{\"event_id\":\"c\",\"p\":\"%01001d\"}", 0), 0), 200);
	cr_assert_eq(bench_rows(), 3);
	expect_status(post_gzip(suite_text("{\"event_id\":\"d\",\"p\":\"%01002d\"}", 0), 0), 413);
	expect_status(post_gzip(suite_text("%0100000d", 0), 0), 413);
	expect_status(post_gzip("{\"event_id\":\"d\"}", -1), 400);
	expect_status(post_gzip("{\"event_id\":\"d\"}", 1), 400);
	expect_status(post("Content-Encoding: gzip\r\n", "{\"event_id\":\"d\"}"), 400);
	expect_status(post_gzip(" ", 0), 400);
	cr_assert_eq(bench_rows(), 3);
	cr_assert_eq(count("dead_letters"), 0);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

Test(post, chunks_are_put_together_and_have_the_same_limit)
{
	static const char head[] = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
				   "Transfer-Encoding: chunked\r\n";

	start("--max-message 1KiB");
	http_expect(ask(head, "9\r\n{\"event_i\r\n7\r\nd\":\"e\"}\r\n0\r\n\r\n"),
		    "[\n{\"event_id\":\"e\",\"status\":\"persisted\",\"n\":1}\n]\n");
	expect_status(ask(head, suite_text("400\r\n%01024d\r\n400\r\n%01024d\r\n0\r\n\r\n", 0, 0)), 413);
	cr_assert_eq(count("dead_letters"), 0);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

static char *lines_of_garbage(int count)
{
	char *body = malloc(2 * (size_t)count + 1), *at = body;

	for (int i = 0; i < count; i++)
		at = mempcpy(at, "x\n", 2);
	*at = '\0';
	return body;
}

Test(post, a_body_of_too_many_lines_is_refused_as_a_whole)
{
	char *body = lines_of_garbage(10001);

	start("--log-level info");
	expect_status(post("", body), 413);
	cr_assert_eq(listener_metric(listener, "wsonce_received_total"), 0);
	body[20000] = '\0';
	expect_status(post("", body), 200);
	cr_assert_eq(listener_metric(listener, "wsonce_received_total"), 10000);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

/* Each of these connections sends a head and something of a body. */
static void open_all(int *fds, int count, const char *head, const char *body, size_t len)
{
	for (int i = 0; i < count; i++) {
		fds[i] = connect_to_it();
		cr_assert(write(fds[i], head, strlen(head)) > 0 && write(fds[i], body, len) == (ssize_t)len);
	}
}

static void close_all(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

static void must_serve(int count, const char *headers)
{
	static int served;

	for (int end = served + count; served < end; served++)
		expect_status(post(headers, suite_text("{\"event_id\":\"e-%d\"}", served)), 200);
}

Test(post, a_producer_of_garbage_is_told_to_rest_and_others_are_not)
{
	char *path = suite_file("tokens", "bad a-bad-producer\ngood a-good-producer\n");

	start("--ingest-token-file %s", path);
	expect_status(post("Authorization: Bearer a-bad-producer\r\n", lines_of_garbage(900)), 200);
	expect_status(post("Authorization: Bearer a-bad-producer\r\n", lines_of_garbage(9000)), 200);
	for (int i = 0; i < 10; i++)
		expect_status(post("Authorization: Bearer a-bad-producer\r\n", lines_of_garbage(9000)), 429);
	expect_status(post("Authorization: Bearer a-good-producer\r\n", "{\"event_id\":\"e\"}"), 200);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_rests_total"), 10);
	cr_assert_eq(listener_metric(listener, "wsonce_token_messages_total{token=\"bad\"}"), 9900);
}

Test(post, a_client_that_sends_slowly_is_cut_off_and_holds_up_nobody)
{
	const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{";

	start("--message-timeout 2");
	struct peer *slow[40];
	for (int i = 0; i < 40; i++) {
		slow[i] = peer_dial(port);
		peer_send_raw(slow[i], head, strlen(head));
	}
	expect_status(post("", "{\"event_id\":\"e\"}"), 200);
	for (int i = 0; i < 40; i++) {
		cr_assert_neq(peer_recv_close(slow[i], WAIT_MS), 0, "still open");
		peer_free(slow[i]);
	}
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

/* Further large requests are told to try again; a small one finds room. */
Test(post, bodies_have_their_part_of_the_memory)
{
	const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n";
	char *half = malloc(59000), answer[400] = "";
	int hoarders[60];

	memset(half, ' ', 59000);
	start("--max-message 64KiB --max-inflight-bytes 2MiB");
	open_all(hoarders, 60, head, half, 59000);
	await(listener_metric(listener, "wsonce_ingest_posts_total") >= 3, WAIT_MS);
	cr_assert_lt(listener_metric(listener, "wsonce_in_flight_bytes"), 400000);
	expect_status(post("", "{\"event_id\":\"e\"}"), 200);
	cr_assert_eq(write(hoarders[59], half, 1000), 1000);
	cr_assert_gt(read(hoarders[59], answer, sizeof answer - 1), 0);
	expect_status(answer, 503);
	cr_assert(strstr(answer, "Retry-After: 1\r\n"));
	close_all(hoarders, 60);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

static int count_refused(const int *fds, int n)
{
	char answer[12];
	int count = 0;

	for (int i = 0; i < n; i++)
		count += recv(fds[i], answer, 12, MSG_PEEK | MSG_DONTWAIT) == 12 &&
			 memcmp(answer, "HTTP/1.1 503", 12) == 0;
	return count;
}

/* All arrive while there is room, and each takes more memory as events than as text. */
Test(post, bodies_that_are_whole_wait_for_memory_too)
{
	const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n";
	char *body = malloc(60001);
	int fds[60];

	for (int i = 0; i < 2400; i++)
		sprintf(body + 25L * i, "{\"event_id\":\"e-%07d\"}\n", i);
	start("--max-message 64KiB --max-inflight-bytes 2MiB");
	struct database *lock = fleet_lock(db);
	open_all(fds, 60, head, NULL, 0);
	await(listener_metric(listener, "wsonce_ingest_posts_total") == 60, WAIT_MS);
	for (int i = 0; i < 60; i++) {
		body[14] = (char)('0' + i / 10);
		body[15] = (char)('0' + i % 10);
		body[16] = '-';
		for (int line = 1; line < 2400; line++)
			memcpy(body + 25L * line + 14, body + 14, 3);
		cr_assert_eq(write(fds[i], body, 60000), 60000);
		await(count_refused(fds, 60) + listener_metric(listener, "wsonce_received_total") / 2400 == i + 1,
		      WAIT_MS);
	}
	cr_assert_geq(count_refused(fds, 60), 1);
	cr_assert_lt(listener_metric(listener, "wsonce_in_flight_bytes"), 3 << 20, "%g",
		     listener_metric(listener, "wsonce_in_flight_bytes"));
	fleet_unlock(lock);
	close_all(fds, 60);
}

Test(post, one_producer_s_half_bodies_do_not_keep_out_others)
{
	const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n";
	char half[1000];
	int hoarders[200];

	memset(half, ' ', sizeof half);
	start("--max-message 64KiB --max-inflight-bytes 2MiB");
	open_all(hoarders, 200, head, half, sizeof half);
	await(listener_metric(listener, "wsonce_in_flight_bytes") > 250000, WAIT_MS);
	must_serve(20, "");
	close_all(hoarders, 200);
}

Test(post, wrong_tokens_are_told_429_and_their_neighbour_waits_for_nothing)
{
	start("--ingest-token secret");
	for (int i = 0; i < 5; i++)
		expect_status(post("Authorization: Bearer no\r\n", "x"), 401);
	for (int i = 0; i < 50; i++) {
		const char *answer = post("Authorization: Bearer no\r\n", "x");

		expect_status(answer, 429);
		cr_assert(strstr(answer, "Retry-After: 1\r\n"));
		expect_status(post("Authorization: Bearer secret\r\n", suite_text("{\"event_id\":\"e-%d\"}", i)), 200);
	}
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_slowed_total"), 50);
	cr_assert(listener_has_logged(listener, "get 429\" setting=--ingest-http address=127.0.0.1"));
}

/* More connections than are allowed. */
Test(post, strangers_make_room_for_who_has_a_token)
{
	int strangers[300];

	start("--ingest-token secret");
	for (int i = 0; i < 300; i++)
		strangers[i] = connect_to_it();
	must_serve(10, "Authorization: Bearer secret\r\n");
	close_all(strangers, 300);
}

/* More connections than are allowed, each reopened as soon as it is closed. */
Test(post, half_requests_of_one_token_make_room_for_others)
{
	const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-greedy-one\r\n"
			   "Content-Length: 100\r\n\r\n";
	char *path = suite_file("tokens", "greedy a-greedy-one\nmodest a-modest-one\n");
	int halves[300];

	start("--ingest-token-file %s", path);
	open_all(halves, 300, head, "{", 1);
	await(listener_metric(listener, "wsonce_ingest_posts_total") >= 256, WAIT_MS);
	for (int i = 0; i < 40; i++) {
		must_serve(1, "Authorization: Bearer a-modest-one\r\n");
		close(halves[i]);
		open_all(&halves[i], 1, head, "{", 1);
	}
	close_all(halves, 300);
}

/* Four have a quarter of the connections each, and keep them open. */
Test(post, idle_connections_of_several_tokens_make_room_for_others)
{
	char *path = suite_file("tokens", "a token-a\nb token-b\nc token-c\nd token-d\nmodest a-modest-one\n"), got[16];
	int idle[256];

	start("--ingest-token-file %s", path);
	for (int i = 0; i < 256; i++) {
		const char *event = suite_text("POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-%c\r\n"
					       "Content-Length: 18\r\n\r\n{\"event_id\":\"i%03d\"}",
					       "abcd"[i % 4], i);

		idle[i] = connect_to_it();
		cr_assert(write(idle[i], event, strlen(event)) > 0 && read(idle[i], got, sizeof(got)) > 0);
	}
	for (int i = 0; i < 40; i++)
		expect_status(post("Authorization: Bearer a-modest-one\r\n", suite_text("{\"event_id\":\"e-%d\"}", i)),
			      200);
	for (int i = 0; i < 256; i++)
		close(idle[i]);
}

/* libmicrohttpd 0.9 can neither read it nor refuse it. */
Test(post, a_chunk_s_size_line_that_does_not_end_stops_nobody)
{
	const char *head = "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n"
			   "Transfer-Encoding: chunked\r\n\r\n1;";
	char *line = malloc(40000);
	int endless[8];

	memset(line, 'a', 40000);
	start("--ingest-token secret");
	open_all(endless, 8, head, line, 40000);
	for (int i = 0; i < 20; i++) {
		cr_assert_geq(listener_metric(listener, "wsonce_ingest_posts_total"), i);
		must_serve(1, "Authorization: Bearer secret\r\n");
	}
	close_all(endless, 8);
}

static void send_whole(int *connections, int from, int to)
{
	for (int i = from; i < to; i++) {
		const char *request =
			suite_text("POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-greedy-one\r\n"
				   "Content-Length: 18\r\n\r\n{\"event_id\":\"%03d\"}",
				   i);

		connections[i] = connect_to_it();
		cr_assert_gt(write(connections[i], request, strlen(request)), 0);
	}
	await(listener_metric(listener, "wsonce_received_total") == to, WAIT_MS);
}

/* Returns how many of these connections have an answer, which must have this status. */
static int count_answered(const int *connections, int count, int status)
{
	char answer[500];
	int answered = 0;

	for (int i = 0; i < count; i++) {
		ssize_t n = recv(connections[i], answer, sizeof(answer) - 1, MSG_PEEK | MSG_DONTWAIT);

		if (n <= 0)
			continue;
		answer[n] = '\0';
		expect_status(answer, status);
		cr_assert(status != 503 || strstr(answer, "Retry-After: 1\r\n"));
		answered++;
	}
	return answered;
}

/* The first requests keep waiting and get their answers. Of those that are sent at once the listener may read any
 * first. */
Test(post, whole_requests_of_one_token_make_room_for_others)
{
	char *path = suite_file("tokens", "greedy a-greedy-one\nmodest a-modest-one\n");
	const char *modest = "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-modest-one\r\n"
			     "Content-Length: 16\r\n\r\n{\"event_id\":\"m\"}";
	int whole[256], others[40];

	start("--ingest-token-file %s --postgres-timeout 60", path);
	struct database *lock = fleet_lock(db);
	send_whole(whole, 0, 200);
	send_whole(whole, 200, 256);
	open_all(others, 40, modest, NULL, 0);
	await(listener_metric(listener, "wsonce_received_total") == 296, WAIT_MS);
	await(count_answered(whole + 200, 56, 503) == 40, WAIT_MS);
	cr_assert_eq(count_answered(whole, 200, 503), 0);
	fleet_unlock(lock);
	await(count_answered(others, 40, 200) == 40, WAIT_MS);
	await(count_answered(whole, 200, 200) == 200, WAIT_MS);
	await(bench_rows() == 257, WAIT_MS);
	close_all(others, 40);
	close_all(whole, 256);
}

Test(post, a_connection_serves_one_request_after_the_other)
{
	const char *request = "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"event_id\":\"e\"}";
	char answers[4000] = "";
	size_t len = 0;

	start("--log-level info");
	int fd = connect_to_it(), found = 0;
	for (int i = 0; i < 5; i++)
		cr_assert_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	while (found < 5) {
		ssize_t n = read(fd, answers + len, sizeof answers - 1 - len);

		cr_assert_gt(n, 0);
		len += (size_t)n;
		found = 0;
		for (const char *at = answers; (at = strstr(at, "HTTP/1.1 200 OK")); at++)
			found++;
	}
	close(fd);
	cr_assert_eq(bench_rows(), 1);
}
