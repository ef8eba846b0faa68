/* Which producers may send: tokens and their names, pages of other origins, addresses that others can reach. */
#include "support.h"
#include "bench.h"

#define ACKS       "wsonce.ack.v1"
#define SETTLED_MS 20000

static char *tokens;

static void set_up(void)
{
	db = database_new();
	tokens = suite_path("tokens");
}

TestSuite(doors, .init = set_up, .fini = bench_close);

static struct peer *open_with(const char *token, int *status)
{
	return peer_open(listener_ingest_port(listener), "/events", ACKS, token, status);
}

static void expect_status(const char *token, int wanted)
{
	int status;

	peer_free(open_with(token, &status));
	cr_assert_eq(status, wanted, "%s: %d", token, status);
}

/* ---- addresses ---- */

Test(doors, an_address_that_others_reach_needs_a_token_or_a_word)
{
	static const char *const addresses[] = {
		"0.0.0.0:0", "*:0", "[::]:0", "192.0.2.1:9000", "events.example:9000", "127.evil.example:9000"};
	char words[200];

	for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
		snprintf(words, sizeof words, "listen --ingest %s", addresses[i]);
		run_expect_refusal_in(NULL, words, "--ingest-open");
	}
	run_expect_refusal_in(NULL, "listen --ingest *:0 --ingest-open=no", "--ingest-open");
	run_expect_refusal_in(NULL, "listen --ingest *:0 --ingest-open=perhaps", "--ingest-open");
	snprintf(words, sizeof words, "listen --ingest *:0 --ingest-profile %s",
		 suite_file("sink.json", "{\"ack\": 1, \"tokens\": [], \"rules\": [{\"action\": \"event\", "
					 "\"id\": [[\"/id\"]]}]}"));
	run_expect_refusal_in(NULL, words, "--ingest-open");
}

Test(doors, an_open_door_is_open)
{
	listener = listener_start(&(struct listener_options){.database = db}, NULL);
	int port = listener_ingest_port(listener);
	cr_assert_eq(listener_stop(listener), 0);
	char *flags = suite_text("--ingest 0.0.0.0:%d --ingest-open", port);
	listener = listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .ingest_port = port}, "%s", flags);
	expect_status(NULL, 101);
}

/* ---- tokens ---- */

static void write_tokens(const char *text)
{
	cr_assert_eq(rename(suite_file("tokens.new", text), tokens), 0);
}

static void start_with_tokens(const char *text)
{
	write_tokens(text);
	bench_start("--ingest-token-file %s --log-level debug", tokens);
}

static double count_of(const char *metric, const char *name)
{
	char *text = suite_text("wsonce_%s{token=\"%s\"}", metric, name);
	return listener_metric(listener, text);
}

Test(doors, each_token_has_a_name_in_metrics_and_log)
{
	start_with_tokens("shop the-token-of-the-shop\ntill the-token-of-the-till\n");
	expect_status(NULL, 401);
	expect_status("the-token-of-the", 401);
	struct peer *shop = open_with("the-token-of-the-shop", NULL), *till = open_with("the-token-of-the-till", NULL);
	peer_send_text(shop, "{\"event_id\":\"a\"}");
	ack_expect(shop, "a", "persisted");
	peer_send_text(shop, "no JSON");
	ack_expect_rejected(shop, NULL, "not JSON");
	cr_assert_eq(count_of("token_connections", "shop"), 1);
	cr_assert_eq(count_of("token_messages_total", "shop"), 2);
	cr_assert_eq(count_of("token_rejected_total", "shop"), 1);
	cr_assert_eq(count_of("token_messages_total", "till"), 0);
	cr_assert(listener_has_logged(listener, "token=shop") && listener_has_logged(listener, "token=till"));
	cr_assert_not(listener_has_logged(listener, "the-token"));
	peer_free(shop);
	peer_free(till);
	await(listener_has_logged(listener, "event=\"producer disconnected\" token=till"), SETTLED_MS);
}

Test(doors, who_is_refused_is_named_in_the_log_if_it_showed_a_token)
{
	write_tokens("shop the-token-of-the-shop\ntill the-token-of-the-till\n");
	bench_start("--ingest-token-file %s --ingest-max-connections 1", tokens);
	struct peer *shop = open_with("the-token-of-the-shop", NULL), *till = NULL;
	expect_status("the-token-of-the-till", 503);
	cr_assert(listener_has_logged(listener, "status=503 token=till"));
	peer_free(shop);
	await((till = open_with("the-token-of-the-till", NULL)), SETTLED_MS, "its place is not given to another");
	peer_free(till);
}

/* A client that forgets to close its connections would keep all others out. */
Test(doors, who_has_most_of_the_connections_makes_room_for_others)
{
	struct peer *shop[8], *till;

	write_tokens("shop the-token-of-the-shop\ntill the-token-of-the-till\n");
	bench_start("--ingest-token-file %s --ingest-max-connections 8", tokens);
	for (int i = 0; i < 8; i++)
		shop[i] = open_with("the-token-of-the-shop", NULL);
	cr_assert(till = open_with("the-token-of-the-till", NULL), "no place");
	cr_assert_eq(peer_recv_close(shop[0], SETTLED_MS), 1006, "the oldest has not made room");
	cr_assert(listener_has_logged(listener, "reason=\"it made room for another token\" token=shop"));
	await(count_of("token_connections", "shop") == 7, SETTLED_MS);
	expect_status("the-token-of-the-shop", 503);
	cr_assert_not(peer_open(listener_ingest_port(listener), "/events", "unknown", "the-token-of-the-till", NULL));
	ack_expect((peer_send_text(shop[1], "{\"event_id\":\"a\"}"), shop[1]), "a", "persisted");
	ack_expect((peer_send_text(till, "{\"event_id\":\"b\"}"), till), "b", "persisted");
}

static void expect_letter_of(const char *sender, const char *id, const char *part)
{
	cr_assert_eq(bench_count("dead_letters WHERE sender = '%s' AND "
				 "coalesce(event_id, '') = '%s' AND reason LIKE '%%%s%%'",
				 sender, id, part),
		     1, "%s: %s %s", sender, id, part);
}

Test(doors, a_dead_letter_has_the_name_of_who_sent_it)
{
	start_with_tokens("shop the-token-of-the-shop\ntill the-token-of-the-till\n");
	struct peer *shop = open_with("the-token-of-the-shop", NULL), *till = open_with("the-token-of-the-till", NULL);
	peer_send_text(shop, "no JSON");
	ack_expect_rejected(shop, NULL, "not JSON");
	expect_letter_of("shop", "", "not JSON");
	peer_send_text(till, "no JSON");
	ack_expect_rejected(till, NULL, "not JSON");
	expect_letter_of("till", "", "not JSON");
	peer_send_text(shop, "{\"event_id\":\"nul\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(shop, "nul", "");
	expect_letter_of("shop", "nul", "");
	peer_send(till, FRAME_TEXT, true, "\xff", 1);
	await(bench_count("dead_letters") == 3, SETTLED_MS);
	cr_assert_null(peer_recv(till, SETTLED_MS), "RFC 6455, section 5.5.1: an ack behind a close frame");
	cr_assert_eq(peer_recv_close(till, SETTLED_MS), 1007);
	expect_letter_of("till", "", "UTF-8");
	run_expect(db, 0, "sender       shop\n", "dead-letters show %ld",
		   database_long(db, "SELECT id FROM dead_letters WHERE event_id = 'nul'"));
}

static void send_garbage(struct peer *p, int count)
{
	for (int i = 0; i < count; i++)
		peer_send_text(p, "garbage");
}

/* Otherwise each new connection would have new credit. */
Test(doors, garbage_counts_for_all_connections_of_a_token)
{
	start_with_tokens("shop the-token-of-the-shop\ntill the-token-of-the-till\n");
	for (int i = 0; i < 3; i++) {
		struct peer *shop = open_with("the-token-of-the-shop", NULL);

		send_garbage(shop, 500);
		await(listener_metric(listener, "wsonce_dead_lettered_total") == 500 * (i + 1), SETTLED_MS);
		peer_free(shop);
	}
	expect_status("the-token-of-the-shop", 429);
	expect_status("the-token-of-the-till", 101);
}

Test(doors, one_of_many_connections_of_garbage_has_no_credit_of_its_own)
{
	struct peer *shop[3];

	start_with_tokens("shop the-token-of-the-shop\n");
	for (int i = 0; i < 3; i++)
		shop[i] = open_with("the-token-of-the-shop", NULL);
	for (int i = 0; i < 3; i++)
		send_garbage(shop[i], 990);
	cr_assert_eq(peer_recv_close(shop[2], SETTLED_MS), 1008);
}

Test(doors, a_token_that_is_taken_out_of_the_file_ends_its_connections)
{
	start_with_tokens("shop the-token-of-the-shop\ntill the-token-of-the-till\n");
	struct peer *shop = open_with("the-token-of-the-shop", NULL), *till = open_with("the-token-of-the-till", NULL);
	write_tokens("till the-token-of-the-till\nshop the-next-token-of-the-shop\n");
	cr_assert_neq(peer_recv_close(shop, SETTLED_MS), 0, "still open");
	expect_status("the-token-of-the-shop", 401);
	expect_status("the-next-token-of-the-shop", 101);
	peer_send_text(till, "{\"event_id\":\"b\"}");
	ack_expect(till, "b", "persisted");
	write_tokens("a b c\n");
	await(listener_has_logged(listener, "cannot reload the tokens, keeping the old ones"), SETTLED_MS);
	expect_status("the-token-of-the-till", 101);
}

Test(doors, a_short_token_is_warned_of)
{
	start_with_tokens("shop the-token-of-the-shop\ntill 15-bytes-of-it_\n");
	cr_assert(listener_has_logged(listener, "short enough to guess"));
	cr_assert(listener_has_logged(listener, "token=till bytes=15"));
	cr_assert_not(listener_has_logged(listener, "token=shop bytes"));
}

Test(doors, tokens_are_checked_before_anything_starts)
{
	write_tokens("");
	char *words = suite_text("listen --ingest 0.0.0.0:0 --ingest-token-file %s", tokens);
	run_expect_refusal_in(NULL, words, "has no token");
	run_expect_refusal_in(NULL, "listen --ingest 0.0.0.0:0 --ingest-token-file /nowhere/x", "/nowhere/x");
	run_expect_refusal_in(NULL, "listen --ingest 0.0.0.0:0 --ingest-token a --ingest-token-file /x", "exclude");
	run_expect_refusal_in(NULL, "listen --ingest 0.0.0.0:0 --ingest-token=", "--ingest-token");
}

/* ---- pages ---- */

static void expect_status_of_origin(const char *origin, int wanted)
{
	int status = http_handshake(listener_ingest_port(listener), origin);

	cr_assert_eq(status, wanted, "%s: %d", origin, status);
}

Test(doors, pages_may_send_only_if_their_origin_is_listed)
{
	bench_start("--ingest-origin https://shop.example --ingest-origin http://localhost:8080");
	expect_status_of_origin("", 101);
	expect_status_of_origin("Origin: https://shop.example\r\n", 101);
	expect_status_of_origin("Origin: http://localhost:8080\r\n", 101);
	expect_status_of_origin("Origin: http://shop.example\r\n", 403);
	expect_status_of_origin("Origin: https://shop.example:8443\r\n", 403);
	expect_status_of_origin("Origin: https://shop.example.evil.example\r\n", 403);
	expect_status_of_origin("Origin: null\r\n", 403);
	expect_status_of_origin("Origin: https://evil.example\r\nOrigin: https://shop.example\r\n", 403);
	run_expect_refusal_in(NULL, "listen --ingest 127.0.0.1:0 --ingest-origin shop.example", "--ingest-origin");
	run_expect_refusal_in(NULL, "listen --ingest 127.0.0.1:0 --ingest-origin https://shop.example/", "origin");
}

Test(doors, no_page_may_send_by_default)
{
	bench_start("--log-level info");
	expect_status_of_origin("Origin: http://127.0.0.1\r\n", 403);
	expect_status_of_origin("Origin: x\r\n", 403);
}

/* ---- connections ---- */

/* A connection from this address of loopback. The caller closes it. */
static int dial_from(const char *address)
{
	return port_connect_from(address, listener_ingest_port(listener));
}

static void ask(int fd, const char *token)
{
	cr_assert_gt(dprintf(fd,
			     "GET /events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d3NvbmNlIHRlc3QgcGVlcg==\r\n"
			     "Authorization: Bearer %s\r\n\r\n",
			     token),
		     0);
}

/* Returns the status of the next answer; 0 if the connection ends without one, -1 if neither happens. */
static int status_on(int fd, int deadline_ms)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char answer[200] = "";
	int status = 0;

	if (poll(&wait, 1, (int)wait_stretch_ms(deadline_ms)) <= 0)
		return -1;
	if (recv(fd, answer, sizeof answer - 1, 0) > 0)
		sscanf(answer, "HTTP/%*s %d", &status);
	return status;
}

static int status_from(const char *address, const char *token)
{
	int fd = dial_from(address), status;

	ask(fd, token);
	status = status_on(fd, SETTLED_MS);
	close(fd);
	return status;
}

Test(doors, a_head_that_comes_in_pieces_and_grows_too_long_is_told_431)
{
	bench_start("%s", "");
	int fd = dial_from("127.0.0.1");
	dprintf(fd, "GET /events HTTP/1.1\r\n");
	for (int i = 0; i < 25 && status_on(fd, 20) < 0; i++)
		dprintf(fd, "X-%d: %0200d\r\n", i, 0);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_refused_total"), 1);
	cr_assert(listener_has_logged(listener, "status=431"));
	close(fd);
	expect_status(NULL, 101);
}

/* Sends a request from an address of its own, and expects a line about its refusal. */
static void expect_line(int port, const char *request, const char *wanted)
{
	static int last;
	const char *address = suite_text("127.0.1.%d", ++last);
	int fd = port_connect_from(address, port);

	cr_assert_geq(dprintf(fd, "%s", request), 0);
	const char *line = suite_text("peer=%s %s", address, wanted);
	await(listener_has_logged(listener, line), SETTLED_MS, "%s: %s", line, request);
	close(fd);
}

Test(doors, each_refusal_leaves_a_line)
{
	static const char rest[] =
		"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: d3NvbmNlIHRlc3QgcGVlcg==\r\n";

	int http = port_reserve();
	bench_start("--handshake-timeout 1 --ingest-http 127.0.0.1:%d", http);
	int ingest = listener_ingest_port(listener), admin = listener_admin_port(listener);

	expect_line(ingest, "TRACE /events HTTP/1.1\r\n\r\n", "reason=\"malformed");
	expect_line(ingest, suite_text("GET /%%zz HTTP/1.1\r\n%s\r\n", rest), "reason=\"malformed");
	expect_line(ingest, suite_text("GET /a%%00 HTTP/1.1\r\n%s\r\n", rest), "reason=\"malformed");
	expect_line(ingest, suite_text("\r\nGET /events HTTP/1.1\r\n%s\r\n", rest), "reason=\"malformed");
	expect_line(ingest, suite_text("GET /events HTTP/1.1\r\n%sSec-WebSocket-Protocol: x\r\n\r\n", rest),
		    "reason=\"unknown subprotocol");
	expect_line(ingest, "GET /events HTTP/1.1\r\n", "reason=\"no whole handshake");
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_refused_total"), 6);
	expect_line(http, "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "status=400");
	expect_line(admin, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "status=403");
}

/* libmicrohttpd does not say whom it refuses. */
Test(doors, refusals_of_libmicrohttpd_leave_a_line_without_a_peer)
{
	static const char old[] = "GET / HTTP/0.9\r\nHost: x\r\n\r\n";

	bench_start("%s", "");
	http_ask(listener_admin_port(listener), old, sizeof(old) - 1, SETTLED_MS);
	cr_assert(listener_has_logged(listener, "event=\"client refused\" setting=--admin status=505"));
}

/* After 503 a producer tries another listener or this one again; after 401 it would give up. */
Test(doors, a_handshake_that_ends_while_the_listener_drains_is_told_503)
{
	write_tokens("sensor-a Token-A-0123456789-ABCDEFGHIJ\n");
	bench_start("--drain-timeout 60 --ingest-token-file %s", tokens);
	int late = dial_from("127.0.0.1"), wrong = dial_from("127.0.0.1");
	struct peer *p = open_with("Token-A-0123456789-ABCDEFGHIJ", NULL); /* accepted after those */
	struct database *lock = fleet_lock(db);
	peer_send_text(p, "{\"event_id\":\"at-work\"}");
	await(listener_metric(listener, "wsonce_in_flight") == 1, SETTLED_MS);
	process_signal(listener_process(listener), SIGTERM);
	await(listener_status(listener, "/readyz") == 503, SETTLED_MS);
	ask(late, "Token-A-0123456789-ABCDEFGHIJ");
	cr_assert_eq(status_on(late, SETTLED_MS), 503);
	ask(wrong, "wrong");
	cr_assert_eq(status_on(wrong, SETTLED_MS), 401);
	fleet_unlock(lock);
	ack_expect(p, "at-work", "persisted");
	peer_free(p);
	close(late);
	close(wrong);
}

#define SILENT 30

Test(doors, strangers_who_say_nothing_take_no_producers_place)
{
	int silent[SILENT];

	bench_start("--ingest-max-connections 2 --ingest-max-handshakes 8");
	for (int i = 0; i < SILENT; i++)
		silent[i] = dial_from("127.0.0.2");
	struct peer *first = open_with(NULL, NULL), *second = open_with(NULL, NULL);
	cr_assert(first && second, "no place for a producer");
	expect_status(NULL, 503);
	cr_assert_eq(status_on(silent[0], SETTLED_MS), 0, "the oldest has not made room");
	cr_assert_geq(listener_metric(listener, "wsonce_ingest_displaced_total"), SILENT - 8);
	cr_assert_eq(status_on(silent[SILENT - 1], 0), -1, "a newer one has been ended");
	for (int i = 0; i < SILENT; i++)
		close(silent[i]);
}

Test(doors, who_has_a_quarter_of_the_handshakes_makes_room_himself)
{
	int patient, greedy[SILENT];

	bench_start("--ingest-max-handshakes 8");
	patient = dial_from("127.0.0.3");
	for (int i = 0; i < SILENT; i++)
		greedy[i] = dial_from("127.0.0.2");
	cr_assert_eq(status_on(greedy[0], SETTLED_MS), 0);
	ask(patient, "any");
	cr_assert_eq(status_on(patient, SETTLED_MS), 101);
	for (int i = 0; i < SILENT; i++)
		close(greedy[i]);
	close(patient);
}

Test(doors, one_address_has_so_many_producers_and_not_more)
{
	bench_start("--ingest-max-per-address 2");
	open_with(NULL, NULL);
	struct peer *second = open_with(NULL, NULL);

	expect_status(NULL, 429);
	cr_assert_eq(status_from("127.0.0.2", "any"), 101);
	peer_free(second);
	await((second = open_with(NULL, NULL)), SETTLED_MS);
}

Test(doors, who_guesses_is_told_429_and_its_neighbour_with_a_token_waits_for_nothing)
{
	int guesses[SILENT];

	bench_start("--ingest-token the-token-of-many-bytes");
	for (int i = 0; i < 5; i++)
		cr_assert_eq(status_from("127.0.0.2", "a-guess"), 401);
	for (int i = 0; i < SILENT; i++) {
		guesses[i] = dial_from("127.0.0.2");
		ask(guesses[i], "a-guess");
		cr_assert_eq(status_from("127.0.0.2", "the-token-of-many-bytes"), 101);
	}
	for (int i = 0; i < SILENT; i++) {
		cr_assert_eq(status_on(guesses[i], SETTLED_MS), 429);
		close(guesses[i]);
	}
	cr_assert_eq(status_from("127.0.0.3", "a-guess"), 401);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_slowed_total"), SILENT);
	cr_assert(listener_has_logged(listener, "get 429\" setting=--ingest address=127.0.0.2"));
	cr_assert_not(listener_has_logged(listener, "get 429\" setting=--ingest address=127.0.0.3"));
}

/* ---- no descriptors ---- */

/* Clock ticks of processor time that the listener has used. */
static long used_ticks(void)
{
	unsigned long user = 0, kernel = 0;

	char *stat = suite_read(suite_text("/proc/%d/stat", (int)process_id(listener_process(listener))));
	cr_assert_eq(sscanf(stat, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
	return (long)(user + kernel);
}

static void expect_wait_without_descriptors(void)
{
	producer = open_with(NULL, NULL);

	process_limit_files(listener_process(listener), 8);
	int fd = dial_from("127.0.0.2");
	ask(fd, "any");
	await(listener_has_logged(listener, "out of file descriptors"), SETTLED_MS);
	long before = used_ticks();
	cr_assert_eq(status_on(fd, 500), -1, "accepted without a descriptor");
	cr_assert_leq(used_ticks() - before, 15, "%ld ticks", used_ticks() - before);
	peer_send_text(producer, "{\"event_id\":\"still-here\"}");
	ack_expect(producer, "still-here", "persisted");
	process_limit_files(listener_process(listener), 1000);
	cr_assert_eq(status_on(fd, SETTLED_MS), 101);
	close(fd);
}

Test(doors, without_descriptors_new_connections_wait_and_nothing_spins)
{
	bench_start("--log-level info");
	expect_wait_without_descriptors();
}

/* Here libwebsockets 4.3 has two listening sockets. */
Test(doors, without_descriptors_nothing_spins_either_where_both_versions_of_ip_are_listened_to)
{
	int port = port_reserve();

	listener =
		listener_start(&(struct listener_options){.database = db, .without_ingest = true, .ingest_port = port},
			       "--log-level info --ingest *:%d --ingest-open", port);
	expect_wait_without_descriptors();
}
