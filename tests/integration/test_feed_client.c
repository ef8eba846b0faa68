/* What a listener sends to a feed with a profile, when it reconnects and when not, and hostile feeds. */
#include "support.h"
#include "bench.h"
#include <signal.h>
#include <zlib.h>

#define SETTLED_MS 20000
#define SECRET     "a-very-secret-word"

static struct feed *feed;
static const char *const env[] = {"FEED_SECRET=" SECRET, NULL};

/* A fleet of one with a profile of these printf-like members; %d in them is the feed's port. */
#define START(...) \
	bench_dial(NULL, env, "--log-level debug --config %s", \
		   suite_file("sources.json", \
			      suite_text("{\"sources\": [{\"name\": \"played\", %s}]}", suite_text(__VA_ARGS__))))

static void set_up(void)
{
	feed = feed_new();
}

TestSuite(feed_client, .init = set_up, .fini = bench_close, .timeout = 120);

#define URL "\"url\": \"ws://127.0.0.1:%d/feed\", "
#define EVENT \
	"{\"name\": \"event\", \"when\": {\"/id\": {\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/id\"]]}"
#define RULES "\"rules\": [" EVENT "]"

/* ---- what is said ---- */

Test(feed_client, headers_subprotocols_and_first_words_are_the_profile_s)
{
	feed_accept_with(feed, "Sec-WebSocket-Protocol: b\r\n");
	START(URL "\"headers\": {\"X-Key\": \"k ${env:FEED_SECRET}\"}, \"subprotocols\": [\"a\", \"b\"], "
		  "\"on_open\": [{\"say\": \"${env:FEED_SECRET}\"}, [\"REQ\"]], " RULES,
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	char *request = feed_request(feed);
	cr_assert_str_eq(frame_header(request, "X-Key"), "k " SECRET);
	cr_assert_str_eq(frame_header(request, "Sec-WebSocket-Protocol"), "a, b");
	await(feed_has_heard(feed, "{\"say\":\"" SECRET "\"}\n[\"REQ\"]\n"), SETTLED_MS);
}

Test(feed_client, a_server_that_chooses_no_subprotocol_is_refused)
{
	START(URL "\"subprotocols\": [\"a\"], " RULES, feed_port(feed));
	bench_expect_status("chooses none of the subprotocols");
	feed_accept_with(feed, "Sec-WebSocket-Protocol: a\r\n");
	await(listener_has_logged(listener, "from=connecting to=open"), SETTLED_MS);
	bench_expect_heard(feed, "id", "then"); /* not by one that is about to be refused */
}

Test(feed_client, who_may_never_send_sends_nothing)
{
	START(URL "\"never_send\": true, \"ws_ping_s\": 1, \"on_open\": [1], "
		  "\"ping\": {\"every_s\": 1, \"send\": 2}, \"rules\": [{\"when\": {\"/x\": 1}, \"send\": [3]}, " EVENT
		  "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"x\":1}");
	wait_pause_ms(2500);
	cr_assert_eq(feed_received(feed) + feed_pings(feed), 0);
}

Test(feed_client, pings_of_the_application_count_and_are_missed)
{
	START(URL "\"ws_ping_s\": 0, \"counter_start\": 7, \"ping\": {\"every_s\": 1, \"send\": {\"ping\": "
		  "\"${counter}\"}}, "
		  "\"rules\": [{\"when\": {\"/pong\": 1}}, " EVENT "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	await(feed_has_heard(feed, "{\"ping\":7}"), SETTLED_MS);
	feed_send_text(feed, "{\"pong\":1}");
	await(feed_has_heard(feed, "{\"ping\":8}"), SETTLED_MS);
	await(feed_connections(feed) >= 2, SETTLED_MS, "silence after a ping ends it");
	cr_assert(listener_has_logged(listener, "did not answer a ping"));
}

Test(feed_client, silence_ends_a_connection)
{
	START(URL "\"ws_ping_s\": 0, \"idle_timeout_s\": 1, " RULES, feed_port(feed));
	await(feed_connections(feed) >= 3, SETTLED_MS);
	cr_assert(listener_has_logged(listener, "silent for too long"));
	await(listener_page_has(listener, "/readyz", "not ready: source played: open: the feed was silent"),
	      SETTLED_MS);
	await((feed_send_text(feed, "{\"id\":\"one\"}"), listener_page_has(listener, "/readyz", "ready\n")),
	      SETTLED_MS);
}

/* Each connection is greeted, as by a feed that confirms a subscription and then forgets it, or knows no such symbol.
 */
Test(feed_client, greetings_and_refusals_do_not_end_a_silence)
{
	START(URL "\"ws_ping_s\": 0, \"idle_timeout_s\": 2, \"rules\": [{\"when\": {\"/hello\": 1}, \"ready\": true}, "
		  "{\"when\": {\"/beat\": 1}}, {\"when\": {\"/refused\": 1}, \"action\": \"reject\"}, " EVENT "]",
	      feed_port(feed));
	await(feed_connections(feed) >= 1, SETTLED_MS);
	for (int i = 2; i <= 3; i++) {
		await(feed_connections(feed) >= i, SETTLED_MS);
		feed_send_text(feed, i == 2 ? "{\"hello\":1}" : "{\"refused\":1}");
		wait_pause_ms(300);
		cr_assert(listener_page_has(listener, "/readyz", "not ready: source played: open: the feed was silent"),
			  "%s", listener_http(listener, "/readyz", NULL));
	}
	await((feed_send_text(feed, "{\"beat\":1}"), listener_page_has(listener, "/readyz", "ready\n")), SETTLED_MS,
	      "heartbeats end it");
	cr_assert_eq(feed_connections(feed), 3);
}

/* The first ping ends the silence, long before the timeout. */
Test(feed_client, a_feed_that_pings_is_ready_after_a_silence)
{
	START(URL "\"ws_ping_s\": 0, \"idle_timeout_s\": 4, " RULES, feed_port(feed));
	await(feed_connections(feed) >= 2, SETTLED_MS);
	cr_assert(listener_page_has(listener, "/readyz", "open: the feed was silent"));
	await((feed_send(feed, FRAME_PING, true, "", 0), listener_page_has(listener, "/readyz", "ready\n")), 1500);
}

/* Pings without an answer end each connection before the timeout does. */
Test(feed_client, a_feed_that_only_greets_and_answers_no_pings_is_not_ready)
{
	START(URL "\"idle_timeout_s\": 9, \"counter_start\": 1, \"ping\": {\"every_s\": 1, \"send\": {\"ping\": 1}}, "
		  "\"rules\": [{\"when\": {\"/hello\": 1}, \"ready\": true}, {\"when\": {\"/pong\": 1}}, " EVENT "]",
	      feed_port(feed));
	for (int i = 1; i <= 3; i++) {
		await(feed_connections(feed) >= i, SETTLED_MS);
		feed_send_text(feed, "{\"hello\":1}");
		wait_pause_ms(300);
	}
	cr_assert(listener_page_has(listener, "/readyz", "not ready: source played: open: a ping was not answered"),
		  "%s", listener_http(listener, "/readyz", NULL));
	await((feed_send_text(feed, "{\"pong\":1}"), listener_page_has(listener, "/readyz", "ready\n")), 2500,
	      "an answer to a ping ends it");
}

/* As from Pusher, whose pings come every two minutes. */
Test(feed_client, a_feed_is_pinged_soon_after_a_silence)
{
	START(URL "\"ws_ping_s\": 0, \"idle_timeout_s\": 7, \"counter_start\": 1, \"ping\": {\"every_s\": 60, "
		  "\"send\": 1}, \"rules\": [{\"when\": {\"/hello\": 1}, \"ready\": true}, " EVENT "]",
	      feed_port(feed));
	await(feed_connections(feed) >= 2, SETTLED_MS);
	feed_send_text(feed, "{\"hello\":1}");
	cr_assert(listener_page_has(listener, "/readyz", "open: the feed was silent"));
	await(feed_has_heard(feed, "1\n"), 6000);
	feed_send_text(feed, "{\"pong\":1}");
	await(listener_page_has(listener, "/readyz", "ready\n"), 1000);
}

/* Pongs are enough, since messages have no limit, or one that is far away. */
static void expect_that_pongs_make_it_ready(const char *limit)
{
	bench_dial(NULL, env, "--ping-interval 1 %s --source played=ws://127.0.0.1:%d/", limit, feed_port(feed));
	feed_answer_pings(feed, false);
	await(feed_connections(feed) >= 2, SETTLED_MS);
	await(listener_page_has(listener, "/readyz", "not ready: source played: open: a ping was not answered"),
	      SETTLED_MS);
	feed_answer_pings(feed, true);
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
}

Test(feed_client, a_quiet_plain_source_is_ready_when_it_answers_pings_again)
{
	expect_that_pongs_make_it_ready("");
}

Test(feed_client, a_plain_source_that_answers_no_pings_is_not_ready)
{
	expect_that_pongs_make_it_ready("--idle-timeout 1h");
}

/* ---- messages that are not JSON ---- */

/* What the feed has heard before it sends a message. */
struct turn {
	const char *heard, *sent;
};

/* Sends the messages, and expects the events id-1 to id-`rows`, and no dead letter. */
/* Returns a copy, in which NULs stand for ~. */
static char *with_nuls(const char *text, size_t *len)
{
	char *copy = suite_text("%s", text);

	*len = strlen(copy);
	for (size_t i = 0; i < *len; i++)
		copy[i] = (char)(copy[i] == '~' ? '\0' : copy[i]);
	return copy;
}

static void play(const char *members, const struct turn *turns, long rows)
{
	START(URL "%s", feed_port(feed), members);
	for (; turns->sent; turns++) {
		cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
		size_t len;
		char *heard = with_nuls(turns->heard ? turns->heard : "", &len);
		cr_assert(wait_until(!len || feed_has_heard_bytes(feed, heard, len), SETTLED_MS), "%s", turns->heard);
		char *message = with_nuls(turns->sent, &len);
		feed_send(feed, FRAME_TEXT, true, message, len);
	}
	cr_assert(wait_until(bench_rows() == rows, SETTLED_MS));
	cr_assert_eq(database_long(db, "SELECT count(*) FROM events WHERE event_id LIKE 'id-%%'"), rows);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters"), 0);
	cr_assert_eq(feed_connections(feed), 1);
}

/* As Polymarket and OKX do. */
Test(feed_client, a_heartbeat_may_be_a_text)
{
	play("\"ws_ping_s\": 0, \"ping\": {\"every_s\": 3, \"send\": {\"text\": \"PING\"}}, "
	     "\"rules\": [{\"text\": \"PONG\"}, " EVENT "]",
	     (const struct turn[]){{NULL, "{\"id\":\"id-1\"}"},
				   {"PING\n", "PONG"},
				   {"PING\nPING\n", "PONG"},
				   {NULL, "{\"id\":\"id-2\"}"},
				   {NULL, NULL}},
	     2);
}

Test(feed_client, messages_of_socket_io)
{
	play("\"frame\": {\"strip\": \"42\"}, \"rules\": ["
	     "{\"text\": {\"prefix\": \"0\"}, \"send\": [{\"text\": \"40\"}]}, {\"text\": {\"prefix\": \"40\"}, "
	     "\"send\": [[\"subscribe\", \"all\"]]}, {\"text\": \"2\", \"send\": [{\"text\": \"3\"}]}, "
	     "{\"when\": {\"/0\": \"trade\"}, \"action\": \"event\", \"id\": [[\"/1/id\"]]}]",
	     (const struct turn[]){{NULL, "0{\"sid\":\"s\"}"},
				   {"40\n", "40{\"sid\":\"t\"}"},
				   {"[\"subscribe\",\"all\"]\n", "42[\"trade\",{\"id\":\"id-1\"}]"},
				   {NULL, "2"},
				   {"\n3\n", "42[\"trade\",{\"id\":\"id-2\"}]"},
				   {NULL, NULL}},
	     2);
}

Test(feed_client, messages_of_signalr)
{
	play("\"on_open\": [{\"text\": \"{\\\"protocol\\\":\\\"json\\\",\\\"version\\\":1}\\u001e\"}], "
	     "\"frame\": {\"until\": \"\\u001e\"}, \"rules\": [{\"when\": {\"/type\": 1}, \"action\": \"event\", "
	     "\"id\": [[\"/arguments/0/id\"]]}]",
	     (const struct turn[]){{"\"version\":1}\x1e\n", "{}\x1e"},
				   {NULL, "{\"type\":1,\"arguments\":[{\"id\":\"id-1\"}]}\x1e{\"type\":6}\x1e"
					  "{\"type\":1,\"arguments\":[{\"id\":\"id-2\"}]}\x1e"},
				   {NULL, NULL}},
	     2);
}

Test(feed_client, messages_of_stomp)
{
	play("\"on_open\": [{\"text\": \"CONNECT\\naccept-version:1.2\\n\\n\\u0000\"}], "
	     "\"frame\": {\"after\": \"\\n\\n\", \"until\": \"\\u0000\"}, \"rules\": [{\"text\": {\"prefix\": "
	     "\"CONNECTED\"}, \"send\": [{\"text\": \"SUBSCRIBE\\nid:0\\ndestination:/topic/a\\n\\n\\u0000\"}]}, " EVENT
	     "]",
	     (const struct turn[]){{"accept-version:1.2\n\n~\n", "CONNECTED\nversion:1.2\n\n~"},
				   {"destination:/topic/a\n\n~\n", "MESSAGE\nsubscription:0\n\n{\"id\":\"id-1\"}~\n"},
				   {NULL, "\n"},
				   {NULL, "MESSAGE\nsubscription:0\n\n{\"id\":\"id-2\"}~"},
				   {NULL, NULL}},
	     2);
}

Test(feed_client, lines_blanks_and_what_is_not_json)
{
	play("\"frame\": {\"until\": \"\\n\"}, \"not_json\": \"ignore\", \"rules\": [" EVENT "]",
	     (const struct turn[]){{NULL, ""},
				   {NULL, " \n{\"id\":\"id-1\"}\n\n{\"id\":\"id-2\"}\n"},
				   {NULL, "hello\n{\"id\":\"id-3\"}"},
				   {NULL, NULL}},
	     3);
}

Test(feed_client, a_blank_message_is_no_dead_letter)
{
	play(RULES, (const struct turn[]){{NULL, ""}, {NULL, " "}, {NULL, "{\"id\":\"id-1\"}"}, {NULL, NULL}}, 1);
	feed_send_text(feed, "hello");
	cr_assert(wait_until(database_long(db, "SELECT count(*) FROM dead_letters") == 1, SETTLED_MS));
}

/* Its pong is queued behind unread data. */
Test(feed_client, a_feed_that_waits_for_its_acks_is_not_ended_by_a_ping)
{
	START(URL "\"ws_ping_s\": 1, \"ack_mode\": \"each\", \"max_unacked\": 3, \"rules\": [{\"action\": \"event\", "
		  "\"id\": [[\"/id\"]], \"ack\": {\"ack\": \"${/id}\"}}]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	struct database *lock = fleet_lock(db);
	for (int i = 0; i < 200; i++)
		feed_sendf(feed, "{\"id\":\"e-%d\",\"filling\":\"%0900d\"}", i, 0);
	cr_assert(!wait_until(feed_connections(feed) > 1, 5000), "its connection is ended");
	database_free(lock);
	await(bench_rows() == 201, SETTLED_MS);
	cr_assert_eq(feed_connections(feed), 1);
}

/* A dead letter is never acked, but the next element of the same message is. */
Test(feed_client, an_element_that_cannot_be_read_takes_no_ack_from_the_next)
{
	START(URL
	      "\"split\": \"array\", \"ack_mode\": \"each\", \"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]], "
	      "\"ack\": {\"ack\": \"${/id}\"}}]",
	      feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "[{\"id\":\"a\"},{\"no\":1},{\"id\":\"b\"}]");
	await(feed_has_heard(feed, "{\"ack\":\"a\"}") && feed_has_heard(feed, "{\"ack\":\"b\"}"), SETTLED_MS);
	await(bench_count("dead_letters") == 1, SETTLED_MS);
	cr_assert_eq(feed_received(feed), 2);
}

/* Acks of a kilobyte, of which a batch has megabytes at once. */
static void start_acked(void)
{
	START(URL "\"ws_ping_s\": 0, \"ack_mode\": \"each\", \"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]], "
		  "\"ack\": {\"ack\": \"${/id}\", \"filling\": \"%01000d\"}}]",
	      feed_port(feed), 0);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
}

static void send_many(int n)
{
	for (int i = 0; i < n; i++)
		feed_sendf(feed, "{\"id\":\"e-%d\"}", i);
}

static void expect_acks_at_once(int n)
{
	struct database *lock = fleet_lock(db);

	send_many(n);
	await(listener_metric(listener, "wsonce_received_total") == n, SETTLED_MS);
	database_free(lock);
	await(feed_received(feed) == n, SETTLED_MS, "%ld acks", feed_received(feed));
	cr_assert_eq(feed_connections(feed), 1);
}

Test(feed_client, a_feed_that_reads_its_acks_gets_megabytes_of_them_at_once)
{
	start_acked();
	expect_acks_at_once(8000);
}

Test(feed_client, acks_wait_for_the_rate_on_the_same_connection)
{
	START(URL "\"send_rate_per_s\": 1500, \"ack_mode\": \"each\", \"rules\": [{\"action\": \"event\", \"id\": "
		  "[[\"/id\"]], \"ack\": \"${/id}\"}]",
	      feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	expect_acks_at_once(4500);
}

Test(feed_client, thousands_of_first_words_wait_for_the_rate)
{
	char numbers[12000] = "1", *at = numbers + 1;

	for (int i = 2; i <= 2200; i++)
		at += sprintf(at, ",%d", i);
	START(URL "\"send_rate_per_s\": 1000, \"vars\": {\"numbers\": [%s]}, "
		  "\"on_open\": [{\"each\": \"$numbers\", \"give\": \"${each}\"}], " RULES,
	      feed_port(feed), numbers);
	await(feed_has_heard(feed, "\n2200\n"), SETTLED_MS);
	cr_assert_eq(feed_connections(feed), 1);
}

Test(feed_client, a_feed_that_reads_no_acks_is_left)
{
	start_acked();
	struct database *lock = fleet_lock(db);
	send_many(16000);
	await(listener_metric(listener, "wsonce_received_total") == 16000, SETTLED_MS);
	feed_freeze(feed);
	database_free(lock);
	await(listener_has_logged(listener, "does not read what is sent to it"), 2 * SETTLED_MS);
	feed_thaw(feed);
	await(feed_connections(feed) == 2, SETTLED_MS);
}

/* ---- limits and deadlines of its own ---- */

static char *message_of(const char *id, int filling)
{
	return suite_text("{\"id\":\"%s\",\"filling\":\"%0*d\"}", id, filling, 0);
}

Test(feed_client, a_source_has_its_own_limit_of_a_message)
{
	START(URL "\"max_message_bytes\": 2000, " RULES, feed_port(feed));
	bench_expect_heard(feed, "id", "first");
	feed_send_text(feed, message_of("long", 2100));
	feed_send_text(feed, message_of("short", 1800));
	bench_expect_heard(feed, "id", "last");
	cr_assert_eq(bench_count("events WHERE event_id = 'short'"), 1);
	cr_assert_eq(bench_rows(), 3);
	await(bench_count("dead_letters WHERE source = 'played' AND reason LIKE '%%max_message_bytes%%'") == 1,
	      SETTLED_MS);
}

Test(feed_client, a_source_s_own_limit_may_be_above_the_settings)
{
	START(URL "\"max_message_bytes\": 4000000, " RULES, feed_port(feed));
	bench_expect_heard(feed, "id", "first");
	feed_send_text(feed, message_of("long", 3000000));
	bench_expect_heard(feed, "id", "last");
	cr_assert_eq(bench_count("events WHERE event_id = 'long'"), 1);
}

Test(feed_client, an_ack_that_cannot_go_out_in_time_is_sent_late_and_counted)
{
	START(URL "\"ack_deadline_ms\": 200, \"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]], \"ack\": "
		  "{\"got\": \"${/id}\"}}]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "in-time");
	await(feed_has_heard(feed, "{\"got\":\"in-time\"}"), SETTLED_MS);
	struct database *lock = fleet_lock(db);
	feed_send_text(feed, "{\"id\":\"late\"}");
	await(listener_metric(listener, "wsonce_received_total") == 2, SETTLED_MS);
	cr_assert(!wait_until(feed_has_heard(feed, "\"late\""), 300), "acked before the commit");
	fleet_unlock(lock);
	await(feed_has_heard(feed, "{\"got\":\"late\"}"), SETTLED_MS);
	await(listener_has_logged(listener, "acks are later than ack_deadline_ms allows"), SETTLED_MS);
}

/* ---- coming back ---- */

Test(feed_client, a_successor_comes_before_the_connection_is_too_old)
{
	int64_t began = wait_now_ms(), end = began + SETTLED_MS;

	START(URL "\"max_age_s\": 1, \"overlap_s\": 5, " RULES, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	for (int i = 0; feed_connections(feed) < 4 && wait_now_ms() < end; i++) {
		cr_assert_geq(feed_clients(feed), 1, "there was a moment without a connection");
		feed_sendf(feed, "{\"id\":\"%d\"}", i);
		wait_pause_ms(10);
	}
	cr_assert_geq(feed_connections(feed), 4);
	cr_assert_geq(wait_now_ms() - began, 2 * 900, "none is replaced before its age");
}

/* Makes a connection too old while memory is full and the feed has sent more. Returns the lock of the store, and the
 * number of events in *sent. */
static struct database *fill_memory(int *sent)
{
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	struct database *lock = fleet_lock(db);
	while (listener_metric(listener, "wsonce_paused") != 1) {
		for (int i = 0; i < 20; i++)
			feed_sendf(feed, "{\"id\":\"%d\",\"text\":\"%01000d\"}", (*sent)++, i);
		await(listener_metric(listener, "wsonce_received_total") >= *sent ||
			      listener_metric(listener, "wsonce_paused") == 1,
		      SETTLED_MS);
	}
	for (int i = 0; i < 50; i++)
		feed_sendf(feed, "{\"id\":\"%d\",\"text\":\"%01000d\"}", (*sent)++, i);
	cr_assert(feed_flush(feed, SETTLED_MS));
	cr_assert_eq(feed_connections(feed), 1, "it was too old before memory was full");
	return lock;
}

/* Expects this many connections while memory is full, and all sent events to be stored afterwards. */
static void expect_read_first(const char *overlap, int connections)
{
	int sent = 0;

	setenv("WSONCE_MAX_INFLIGHT_BYTES", "256KiB", 1);
	START(URL "\"max_age_s\": 3, %s" RULES, feed_port(feed), overlap);
	struct database *lock = fill_memory(&sent);
	cr_assert(feed_wait_clients(feed, connections, SETTLED_MS));
	cr_assert_not(wait_until(feed_clients(feed) < connections || feed_connections(feed) > connections, 5000),
		      "it was left");
	fleet_unlock(lock);
	await(bench_rows() == sent, SETTLED_MS, "%ld of %d", bench_rows(), sent);
	await(feed_connections(feed) >= 2, SETTLED_MS);
}

Test(feed_client, one_that_is_too_old_while_it_is_not_read_from_is_read_first)
{
	expect_read_first("", 1);
}

Test(feed_client, one_with_a_successor_is_read_to_its_end_though_it_is_not_read_from_at_first)
{
	expect_read_first("\"overlap_s\": 1, ", 2);
}

Test(feed_client, a_rule_leads_to_another_url_and_keeps_what_was_subscribed)
{
	START(URL "\"redirect_keeps_subscriptions\": true, \"on_open\": [{\"subscribe\": 1}], \"rules\": [{\"name\": "
		  "\"move\", "
		  "\"when\": {\"/move\": {\"exists\": true}}, \"action\": \"reconnect\", \"url\": \"${/move}\"}, " EVENT
		  "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	cr_assert_eq(feed_received(feed), 1);
	feed_sendf(feed, "{\"move\":\"ws://127.0.0.1:%d/moved\"}", feed_port(feed));
	await(feed_connections(feed) == 2, SETTLED_MS);
	bench_expect_heard(feed, "id", "two");
	cr_assert(strncmp(feed_request(feed), "GET /moved ", 11) == 0, "%s", feed_request(feed));
	cr_assert_eq(feed_received(feed), 1);
}

#define MOVE \
	"\"rules\": [{\"name\": \"move\", \"when\": {\"/move\": {\"exists\": true}}, \"action\": \"reconnect\", " \
	"\"url\": \"${/move}\"}, " EVENT "]"

Test(feed_client, a_feed_writes_no_lines_into_a_connection_to_a_redis)
{
	struct redisd *redis = redisd_new();

	START(URL MOVE, feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_sendf(feed, "{\"move\":\"ws://127.0.0.1:%d/\\r\\nSET pwned 1\\r\\nX\"}", redisd_port(redis));
	await(listener_has_logged(listener, "the URL contains a blank"), SETTLED_MS);
	cr_assert_eq(redisd_long(redis, "EXISTS pwned"), 0);
	bench_expect_heard(feed, "id", "two");
}

Test(feed_client, a_feed_leads_nowhere_but_to_hosts_that_the_profile_names)
{
	struct feed *other = feed_new();

	START(URL MOVE, feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_sendf(feed, "{\"move\":\"ws://localhost:%d/\"}", feed_port(other));
	await(listener_has_logged(listener, "leads to a host that the profile does not name"), SETTLED_MS);
	bench_expect_heard(feed, "id", "two");
	cr_assert_null(feed_request(other));
}

Test(feed_client, a_feed_leads_to_a_host_that_the_profile_lists)
{
	struct feed *other = feed_new();

	START(URL "\"hosts\": [\"localhost\"], \"headers\": {\"X-Secret\": \"${env:FEED_SECRET}\", \"X-Plain\": \"p\", "
		  "\"X-Text\": \"${text:env:FEED_SECRET}\"}, " MOVE,
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	cr_assert_not_null(frame_header(feed_request(feed), "X-Secret"));
	feed_sendf(feed, "{\"move\":\"ws://localhost:%d/there\"}", feed_port(other));
	cr_assert(feed_wait_clients(other, 1, SETTLED_MS));
	cr_assert_str_eq(frame_header(feed_request(other), "X-Plain"), "p");
	cr_assert_null(frame_header(feed_request(other), "X-Secret"), "a host of the feed's choice gets the secret");
	cr_assert_null(frame_header(feed_request(other), "X-Text"), "a host of the feed's choice gets the secret");
}

Test(feed_client, what_a_feed_sent_is_percent_encoded_in_a_url)
{
	START(URL "\"rules\": [{\"when\": {\"/s\": {\"exists\": true}}, \"action\": \"reconnect\", \"url\": "
		  "\"ws://127.0.0.1:%d/?s=${/s}&t=u\"}, " EVENT "]",
	      feed_port(feed), feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"s\":\"a&b=c#d /\\r\\nX: \\u00e9\"}");
	await(strstr(feed_request(feed), "GET /?s=a%26b%3Dc%23d%20%2F%0D%0AX:%20%C3%A9&t=u HTTP/1.1\r\n"), SETTLED_MS,
	      "%s", feed_request(feed));
}

Test(feed_client, a_rule_that_reconnects_tells_the_words_of_the_feed)
{
	START(URL "\"backoff\": {\"min_ms\": 5000, \"max_ms\": 5000}, \"rules\": [{\"name\": \"bye\", \"when\": "
		  "{\"/bye\": {\"exists\": true}}, \"action\": \"reconnect\"}, " EVENT "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"bye\":\n1, \"why\": \"maintenance\"}");
	bench_expect_status("rule bye: ");
	bench_expect_status("maintenance");
}

Test(feed_client, what_is_fatal_stops_it_for_twenty_of_the_longest_waits)
{
	START(URL "\"backoff\": {\"min_ms\": 10, \"max_ms\": 150}, \"rules\": [{\"name\": \"refused\", \"when\": "
		  "{\"/error\": {\"exists\": true}}, \"action\": \"fatal\"}, " EVENT "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"error\":\"no such account " SECRET "\"}");
	bench_expect_status("\"stopped\"");
	bench_expect_status("no such account");
	wait_pause_ms(1500);
	cr_assert_eq(feed_connections(feed), 1);
	cr_assert_eq(listener_status(listener, "/readyz"), 503);
	await(feed_connections(feed) == 2, SETTLED_MS);
	bench_expect_heard(feed, "id", "two");
	bench_expect_status("\"open\"");
}

Test(feed_client, close_codes_mean_what_the_profile_says)
{
	START(URL "\"fatal_close\": [4004], \"close_policy\": {\"4200-4299\": \"at_once\"}, " RULES, feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_close_all(feed, 4200);
	await(feed_connections(feed) == 2, SETTLED_MS);
	bench_expect_heard(feed, "id", "two");
	feed_close_all(feed, 4004);
	bench_expect_status("\"stopped\"");
}

static void expect_next_request(const char *path)
{
	static int n = 1;

	await(feed_connections(feed) == n + 1, SETTLED_MS);
	n++;
	bench_expect_heard(feed, "id", suite_text("event-%d", n));
	cr_assert(strncmp(feed_request(feed) + 4, path, strlen(path)) == 0, "%s", feed_request(feed));
}

Test(feed_client, a_code_that_resets_drops_the_variables_that_the_profile_names_and_no_other_code_does)
{
	START(URL
	      "\"url_resume\": \"ws://127.0.0.1:%d/resume?s=${s}\", \"reset_close\": {\"codes\": [4007], \"clear\": "
	      "[\"s\"]}, \"rules\": [{\"name\": \"hello\", \"when\": {\"/s\": {\"exists\": true}}, \"capture\": "
	      "{\"s\": \"/s\"}}, " EVENT "]",
	      feed_port(feed), feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"s\":\"abc\"}");
	bench_expect_heard(feed, "id", "two");
	feed_close_all(feed, 4006);
	expect_next_request("/resume?s=abc ");
	feed_close_all(feed, 4007);
	expect_next_request("/feed ");
}

Test(feed_client, one_whose_url_to_resume_leads_nowhere_is_dialled_at_its_own_again)
{
	START(URL "\"url_resume\": \"${to}\", \"backoff\": {\"min_ms\": 1, \"max_ms\": 10}, \"rules\": [{\"when\": "
		  "{\"/to\": "
		  "{\"exists\": true}}, \"capture\": {\"to\": \"/to\"}}, " EVENT "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"to\":\"ws://feed.invalid/resume\"}");
	bench_expect_heard(feed, "id", "two");
	feed_close_all(feed, 1001);
	expect_next_request("/feed ");
}

/* A refused connection does not count as the last one that ended. */
Test(feed_client, one_that_refuses_to_resume_is_dialled_at_its_own_url_after_the_window)
{
	START(URL "\"url_resume\": \"ws://127.0.0.1:%d/resume?s=${s}\", \"resume_window_s\": 2, \"backoff\": "
		  "{\"min_ms\": 1, \"max_ms\": 100}, \"rules\": [{\"when\": {\"/s\": {\"exists\": true}}, "
		  "\"capture\": {\"s\": \"/s\"}}, " EVENT "]",
	      feed_port(feed), feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"s\":\"abc\"}");
	bench_expect_heard(feed, "id", "two");
	feed_answer(feed, "/resume", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
	feed_close_all(feed, 1001);
	expect_next_request("/feed ");
}

/* As after a failover. Only in its session does such a feed send again what was not acked. */
Test(feed_client, one_without_a_cursor_is_resumed_when_the_database_has_lost_commits)
{
	START(URL "\"url_resume\": \"ws://127.0.0.1:%d/resume?s=${s}\", \"resume_window_s\": 60, \"rules\": "
		  "[{\"when\": {\"/s\": {\"exists\": true}}, \"capture\": {\"s\": \"/s\"}}, {\"action\": \"event\", "
		  "\"id\": [[\"/id\"]], \"ack\": {\"ack\": \"${/id}\"}}]",
	      feed_port(feed), feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"s\":\"abc\"}");
	bench_expect_heard(feed, "id", "two");
	database_exec(db, "DELETE FROM wsonce_epoch");
	feed_send_text(feed, "{\"id\":\"three\"}");
	expect_next_request("/resume?s=abc ");
}

/* ---- hostile feeds ---- */

/* And says ready each time: good words before a hasty goodbye do not make the next wait short. */
Test(feed_client, one_that_says_ready_sends_an_event_and_closes_is_not_dialled_without_end)
{
	START(URL
	      "\"close_policy\": {\"4000\": \"at_once\"}, \"rules\": [{\"name\": \"ready\", \"when\": {\"/ready\": 1}, "
	      "\"ready\": true}, " EVENT "]",
	      feed_port(feed));
	int64_t end = wait_now_ms() + 5000;
	while (wait_now_ms() < end) {
		feed_send_text(feed, "{\"ready\":1}");
		feed_send_text(feed, "{\"id\":\"welcome\"}");
		feed_close_all(feed, 4000);
		wait_pause_ms(5);
	}
	cr_assert_leq(feed_connections(feed), 10, "%d connections in 5 s", feed_connections(feed));
}

/* At most one successor per second. */
Test(feed_client, one_that_always_asks_for_a_successor_is_not_dialled_without_end)
{
	START(URL "\"overlap_s\": 5, \"rules\": [{\"name\": \"ready\", \"when\": {\"/ready\": 1}, \"ready\": true}, "
		  "{\"name\": "
		  "\"refresh\", \"when\": {\"/refresh\": 1}, \"action\": \"reconnect\", \"overlap\": true}, " EVENT "]",
	      feed_port(feed));
	int64_t end = wait_now_ms() + 5000;
	while (wait_now_ms() < end) {
		feed_send_text(feed, "{\"ready\":1}");
		feed_send_text(feed, "{\"refresh\":1}");
		wait_pause_ms(5);
	}
	cr_assert_leq(feed_connections(feed), 8, "%d connections in 5 s", feed_connections(feed));
	cr_assert_geq(feed_connections(feed), 2);
}

Test(feed_client, waits_grow_for_one_that_always_asks_for_a_successor)
{
	START(URL "\"overlap_s\": 5, \"backoff\": {\"min_ms\": 2000, \"jitter\": false}, \"rules\": [{\"when\": "
		  "{\"/refresh\": 1}, \"action\": \"reconnect\", \"overlap\": true}, " EVENT "]",
	      feed_port(feed));
	int64_t end = wait_now_ms() + 6000;
	while (wait_now_ms() < end) {
		feed_send_text(feed, "{\"refresh\":1}");
		feed_send_text(feed, "{\"id\":\"welcome\"}");
		wait_pause_ms(5);
	}
	cr_assert_leq(feed_connections(feed), 3, "%d connections in 6 s", feed_connections(feed));
	cr_assert_geq(feed_connections(feed), 2);
}

Test(feed_client, a_successor_that_is_refused_waits_for_as_long_as_the_answer_asks)
{
	START(URL "\"max_age_s\": 1, \"overlap_s\": 5, " RULES, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_answer(feed, "/feed", "HTTP/1.1 429 Busy\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n");
	await(listener_has_logged(listener, "cannot connect the successor"), SETTLED_MS);
	wait_pause_ms(4000);
	cr_assert_eq(listener_count_logged(listener, "cannot connect the successor"), 1);
}

Test(feed_client, replies_that_are_provoked_are_bounded)
{
	START(URL "\"rules\": [{\"name\": \"echo\", \"when\": {\"/x\": 1}, \"send\": [{\"y\": 1}]}, " EVENT "]",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	int64_t begin = wait_now_ms();
	for (int i = 0; i < 500; i++)
		feed_send_text(feed, "{\"x\":1}");
	await(feed_received(feed) >= 200, SETTLED_MS);
	cr_assert_leq(feed_received(feed), 50 * (wait_now_ms() - begin) / 1000 + 60);
	for (int i = 0; i < 2000; i++)
		feed_send_text(feed, "{\"x\":1}");
	await(listener_has_logged(listener, "asks for more replies than the rate limit allows"), SETTLED_MS);
	await(feed_connections(feed) >= 2, SETTLED_MS);
	bench_expect_heard(feed, "id", "afterwards");
}

static void start_with_call(void)
{
	START("\"url\": \"${url}\", \"backoff\": {\"min_ms\": 50, \"max_ms\": 300}, \"url_http\": {\"method\": "
	      "\"POST\", \"url\": \"http://127.0.0.1:%d/open\", "
	      "\"headers\": "
	      "{\"Authorization\": \"Bearer ${env:FEED_SECRET}\"}, \"capture\": {\"url\": \"/url\"}}, " RULES,
	      feed_port(feed));
}

Test(feed_client, a_url_that_is_asked_for_may_be_refused_be_html_or_lack_what_is_wanted)
{
	static const char *const answers[][2] = {
		{"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", "before connecting: answered 500: no"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", "not JSON"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"ok\":1}", "lacks a value to capture"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n{\"ok\":false,\"error\":\"invalid_auth\"}",
		 "its error: invalid_auth"},
		{"HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "answered 302"},
		{"SSH-2.0-x\r\n", "the HTTP call before connecting"},
	};
	char good[300];
	int n = snprintf(good, sizeof good, "{\"url\":\"ws://127.0.0.1:%d/feed\"}", feed_port(feed));

	feed_answer(feed, "/open", answers[0][0]);
	start_with_call();
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		feed_answer(feed, "/open", answers[i][0]);
		bench_expect_status(answers[i][1]);
	}
	feed_answer(feed, "/open", suite_text("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, good));
	bench_expect_heard(feed, "id", "at last");
}

Test(feed_client, a_url_that_is_asked_for_may_never_come)
{
	feed_freeze(feed);
	START("\"url\": \"${url}\", \"url_http\": {\"method\": \"GET\", \"url\": \"http://127.0.0.1:%d/open\", "
	      "\"capture\": {\"url\": \"/url\"}}, " RULES,
	      feed_port(feed));
	bench_expect_status("\"calling\"");
	bench_expect_status("the HTTP call before connecting");
	cr_assert_eq(listener_stop(listener), 0);
}

/* ---- binary messages ---- */

/* Sends the first bytes of a gzip member, in two frames. */
static void send_gzip(const char *text, size_t len, size_t dropped)
{
	unsigned char out[65536];
	z_stream z = {
		.next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)len, .next_out = out, .avail_out = sizeof out};

	cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	feed_send(feed, FRAME_BINARY, false, out, 7);
	feed_send(feed, FRAME_CONTINUATION, true, out + 7, sizeof out - z.avail_out - 7 - dropped);
}

static bool has_rows(const char *condition, long count)
{
	return wait_until(bench_count("events WHERE %s", condition) == count, SETTLED_MS);
}

static bool has_letters(const char *reason, long count)
{
	return wait_until(bench_count("dead_letters WHERE reason LIKE '%%%s%%'", reason) == count, SETTLED_MS);
}

Test(feed_client, binary_messages_are_inflated_and_what_is_none_is_one_letter)
{
	char *zeros = calloc(1, 2 << 20);

	START(URL "\"binary\": \"gzip\", \"not_json\": \"ignore\", \"split\": \"ndjson\", " RULES, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_gzip("{\"id\":\"a\"}\n{\"id\":\"b\"}", 21, 0);
	feed_send_text(feed, "{\"id\":\"c\"}");
	send_gzip("{\"id\":\"d\"}", 10, 3);
	send_gzip(zeros, 2 << 20, 0);
	feed_send(feed, FRAME_BINARY, true, "\x1f\n\n\x8b", 4);
	feed_send(feed, FRAME_BINARY, true, "{\"id\":\"e\"}", 10);
	feed_send(feed, FRAME_BINARY, true, "", 0);
	send_gzip("", 0, 0);
	send_gzip("{\"id\":\"f\"}", 10, 0);
	cr_assert(has_rows("event_id IN ('a', 'b', 'c', 'f')", 4));
	cr_assert(has_letters("is cut off", 1));
	cr_assert(has_letters("inflates to more bytes", 1));
	cr_assert(has_letters("is damaged, or not of the coding", 2));
	cr_assert_eq(bench_count("dead_letters"), 4);
	await(listener_metric(listener, "wsonce_feed_rejected_total{source=\"played\",rule=\"\"}") == 4, SETTLED_MS);
	cr_assert_eq(feed_connections(feed), 1);
}

Test(feed_client, without_the_key_a_binary_message_is_text_or_one_letter)
{
	START(URL "\"split\": \"ndjson\", " RULES, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_gzip("{\"id\":\"a\"}", 10, 0);
	feed_send(feed, FRAME_BINARY, true, "\xff\n\xff\n\xff", 5);
	feed_send(feed, FRAME_BINARY, true, "{\"id\":\"b\"}", 10);
	cr_assert(has_rows("event_id = 'b'", 1));
	cr_assert(has_letters("does not say how it is compressed", 2));
	cr_assert_eq(bench_count("dead_letters"), 2);
	cr_assert_eq(bench_rows(), 1);
	cr_assert_eq(feed_connections(feed), 1);
}

/* ---- odd frames ---- */

#define ITEMS \
	"\"cursor\": {\"kind\": \"max\", \"scope\": \"source\"}, \"max_elements\": 10000, \"rules\": [{\"name\": " \
	"\"items\", " \
	"\"when\": {\"/items\": {\"exists\": true}}, \"action\": \"event\", \"explode\": \"/items/*\", \"id\": " \
	"[[\"/id\"]], " \
	"\"cursor\": \"^/seq\", \"capture\": {\"ticket\": \"/ticket\"}, \"send\": [{\"got\": \"${/seq}\", \"with\": " \
	"\"${/none}\"}]}]"

/* {"seq":SEQ,"items":[{"id":"HEAD0"},...]} */
static void send_items(const char *seq, const char *head, int count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fprintf(out, "{\"seq\":%s,\"items\":[", seq);
	for (int i = 0; i < count; i++)
		fprintf(out, "%s{\"id\":\"%s%d\"}", i ? "," : "", head, i);
	fprintf(out, "]}");
	fclose(out);
	feed_send_text(feed, text);
	free(text);
}

Test(feed_client, frames_of_ten_thousand_elements_are_stored_and_larger_ones_are_letters)
{
	START(URL ITEMS, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_items("1", "a", 10000);
	cr_assert(has_rows("event_id LIKE 'a%'", 10000));
	send_items("2", "b", 10001);
	await(bench_count("dead_letters WHERE reason LIKE '%%max_elements%%'") == 1, SETTLED_MS);
	await(feed_has_heard(feed, "{\"got\":1,\"with\":null}"), SETTLED_MS);
}

Test(feed_client, odd_cursors_captures_and_ids_change_nothing_else)
{
	char *long_text = suite_text("%0300000d", 7), *long_id = suite_text("%0600d", 7);

	START(URL ITEMS, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_items("50", "a", 1);
	send_items("7", "b", 1);
	send_items("\"7f\"", "c", 1);
	send_items("null", "d", 1);
	cr_assert(has_rows("true", 4));
	await(listener_has_logged(listener, "which is of another kind or cannot be stored"), SETTLED_MS);
	await(bench_count("cursors WHERE value::int = 50") == 1, SETTLED_MS);
	feed_sendf(feed, "{\"ticket\":\"%s\",\"items\":[{\"id\":\"e\"}]}", long_text);
	feed_sendf(feed, "{\"seq\":51,\"items\":[{\"id\":\"%s\"}]}", long_id);
	cr_assert(has_rows("event_id = 'e' OR length(event_id) = 64", 2), "an id that is too long is its SHA-256");
	await(bench_count("cursors WHERE value::int = 51") == 1, SETTLED_MS);
	bench_expect_status("\"open\"");
}

static int count_lines(const char *level, const char *part)
{
	int n = 0;
	char *rest = process_errors(listener_process(listener));

	for (char *line; (line = strsep(&rest, "\n"));)
		n += strstr(line, level) && strstr(line, part);
	return n;
}

/* Each connection brings data that is ignored, and after each the feed refuses connections for a while. */
Test(feed_client, one_that_fails_in_turn_at_and_after_its_handshake_is_told_a_few_times)
{
	START(URL "\"backoff\": {\"min_ms\": 10, \"max_ms\": 20}, \"cursor\": {\"kind\": \"max\", \"scope\": "
		  "\"source\"}, \"rules\": [{\"when\": {\"/c\": {\"exists\": true}}, \"cursor\": \"/c\"}, " EVENT "]",
	      feed_port(feed));
	for (int i = 1; i <= 8; i++) {
		cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
		feed_send_text(feed, "{\"c\":1e99999}");
		feed_refuse(feed, 500);
		feed_close_all(feed, 1013);
		await(listener_metric(listener, "wsonce_source_disconnects_total") >= 2 * i, SETTLED_MS);
		feed_refuse(feed, 0);
	}
	cr_assert_leq(count_lines("level=info", "to=open"), 4);
	cr_assert_eq(count_lines("level=warn", "ignoring invalid data from a source"), 1);
}

Test(feed_client, one_that_asks_for_long_waits_is_warned_of_once)
{
	feed_answer(feed, "/feed", "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n");
	START(URL "\"backoff\": {\"min_ms\": 10, \"max_ms\": 20}, " RULES, feed_port(feed));
	await(listener_metric(listener, "wsonce_source_disconnects_total") >= 3, SETTLED_MS);
	cr_assert_eq(count_lines("level=warn", "cannot connect to source"), 1);
}

/* ---- logged, without secrets ---- */

Test(feed_client, frames_without_a_rule_are_told_and_counted)
{
	START(URL RULES, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	for (int i = 0; i < 30; i++)
		feed_sendf(feed, "{\"what\":\"%s\",\"n\":%d}", SECRET, i);
	await(listener_has_logged(listener, "match no rule of its profile"), SETTLED_MS);
	await(listener_metric(listener, "wsonce_feed_frames_without_events_total{source=\"played\",rule=\"\"}") == 30,
	      SETTLED_MS);
	bench_expect_heard(feed, "id", "one");
	cr_assert_eq(listener_metric(listener, "wsonce_feed_events_total{source=\"played\",rule=\"event\"}"), 1);
}

Test(feed_client, frames_without_the_list_of_their_rule_are_told)
{
	START(URL
	      "\"rules\": [{\"name\": \"list\", \"action\": \"event\", \"explode\": \"/list/*\", \"id\": [[\"/id\"]]}]",
	      feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "{\"items\":[{\"id\":1}]}");
	await(listener_has_logged(listener, "match no rule of its profile"), SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_feed_frames_total{source=\"played\",rule=\"\"}"), 1);
	cr_assert_eq(listener_metric(listener, "wsonce_feed_frames_total{source=\"played\",rule=\"list\"}"), 0,
		     "it counts twice");
}

/* The feed sends heartbeats, so it is not silent. A quiet successor that has confirmed is not told. */
Test(feed_client, a_feed_that_does_not_confirm_its_subscription_is_told_once_and_is_not_ready)
{
	bench_dial(NULL, env, "--log-level debug --handshake-timeout 1 --config %s",
		   suite_file("sources.json",
			      suite_text("{\"sources\": [{\"name\": \"played\", " URL
					 "\"on_open\": [\"${env:FEED_SECRET}\"], \"overlap_s\": 10, \"rules\": "
					 "[{\"when\": {\"/ok\": 1}, "
					 "\"ready\": true}, {\"when\": {\"/move\": 1}, \"action\": \"reconnect\", "
					 "\"overlap\": true}, " EVENT "]}]}",
					 feed_port(feed))));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_sendf(feed, "{\"beat\":\"%s\"}", SECRET);
	await(listener_page_has(listener, "/readyz", "not ready: source played: open: the feed does not confirm"),
	      SETTLED_MS);
	cr_assert_eq(count_lines("does not confirm the subscription", "****"), 1);
	feed_drop_all(feed);
	await(feed_connections(feed) == 2 && feed_wait_clients(feed, 1, SETTLED_MS), SETTLED_MS);
	cr_assert(listener_page_has(listener, "/readyz", "not ready: source played"));
	feed_send_text(feed, "{\"ok\":1}");
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	cr_assert(listener_has_logged(listener, "source has confirmed the subscription"));
	feed_send_text(feed, "{\"move\":1}");
	await(feed_connections(feed) == 3, SETTLED_MS);
	feed_send_text(feed, "{\"ok\":1}");
	await(listener_has_logged(listener, "has a successor"), SETTLED_MS);
	wait_pause_ms(1500);
	cr_assert_eq(count_lines("level=warn", "does not confirm the subscription"), 1);
}

/* The feed answers heartbeats, so it is not silent. */
Test(feed_client, one_that_asks_for_a_successor_and_refuses_each_is_told_and_not_ready)
{
	bench_dial(NULL, env, "--log-level debug --handshake-timeout 1 --config %s",
		   suite_file("sources.json",
			      suite_text("{\"sources\": [{\"name\": \"played\", " URL "\"rules\": "
					 "[{\"when\": {\"/ok\": 1}, \"ready\": true}, {\"name\": \"lost\", \"when\": "
					 "{\"/lost\": 1}, \"action\": \"reconnect\", \"overlap\": true}, " EVENT "]}]}",
					 feed_port(feed))));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "{\"ok\":1}");
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	await((feed_send_text(feed, "{\"lost\":1}"),
	       listener_page_has(listener, "/readyz", "not ready: source played: open: rule lost: {")),
	      SETTLED_MS);
	cr_assert_eq(count_lines("level=warn", "does not confirm the subscription"), 1);
	/* A successor that cannot be dialled does not count: the current connection goes on. */
	feed_answer(feed, "/feed", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
	await((feed_send_text(feed, "{\"ok\":1}"), feed_clients(feed) == 1), SETTLED_MS);
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	cr_assert(listener_has_logged(listener, "source has confirmed the subscription"));
	feed_send_text(feed, "{\"lost\":1}");
	wait_pause_ms(3000);
	cr_assert(listener_page_has(listener, "/readyz", "ready\n"));
}

Test(feed_client, holes_in_a_numbering_are_told_and_counted)
{
	START(URL "\"gap\": {\"key\": \"/of\", \"seq\": \"/n\", \"contiguous\": true}, " RULES, feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	static const char *const events[] = {"a 4", "b 90", "a 5", "a 8", "a 8", "a 7", "b 91", "b 93"};
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		feed_sendf(feed, "{\"id\":\"%zu\",\"of\":\"%c\",\"n\":%s}", i, *events[i], events[i] + 2);
	await(listener_metric(listener, "wsonce_feed_gaps_total{source=\"played\"}") == 2, SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_feed_missing_total{source=\"played\"}"), 3);
	await(listener_has_logged(listener, "numbers of a source are missing"), SETTLED_MS);
	cr_assert(listener_has_logged(listener, "a 6 to 7"));
	feed_drop_all(feed);
	bench_expect_heard(feed, "id", "again");
	feed_send_text(feed, "{\"id\":\"after\",\"of\":\"b\",\"n\":99}");
	await(listener_metric(listener, "wsonce_feed_gaps_total{source=\"played\"}") == 3, SETTLED_MS,
	      "what was sent while nobody was connected is missing, too");
	cr_assert_eq(listener_metric(listener, "wsonce_feed_missing_total{source=\"played\"}"), 8);
	char *line = strstr(process_errors(listener_process(listener)), "numbers of a source are missing");
	cr_assert_null(strstr(line + 1, "numbers of a source are missing"), "once a minute");
	cr_assert_eq(listener_stop(listener), 0);
	cr_assert_eq(database_long(db, "SELECT sum(gap) FROM line_minutes"), 8);
	cr_assert_eq(bench_count("line_minutes WHERE silent_ms > 0"), 0);
}

static void expect_no_secret(const char *where, const char *text)
{
	const char *at = text ? strstr(text, SECRET) : NULL;

	cr_assert(!at, "%s has the secret: %.200s", where, at && at - text > 100 ? at - 100 : text);
}

Test(feed_client, a_refusal_of_a_list_shows_no_secret)
{
	feed_answer(feed, "/list",
		    "HTTP/1.1 401 No\r\nContent-Length: 26\r\n\r\n\x1b"
		    "a key: " SECRET);
	START(URL "\"vars\": {\"items\": []}, \"shard\": {\"var\": \"items\", \"per_connection\": 1, \"most\": 2}, "
		  "\"var_http\": {\"items\": {\"url\": \"http://127.0.0.1:%d/list\", \"every_s\": 1, \"headers\": "
		  "{\"X-Key\": \"${env:FEED_SECRET}\"}}}, \"on_open\": [{\"say\": \"$items\"}], " RULES,
	      feed_port(feed), feed_port(feed));
	await(listener_has_logged(listener, "cannot use the list of a source"), SETTLED_MS);
	bench_expect_status("answered 401: ?a key: ******************\"");
	expect_no_secret("the log", process_errors(listener_process(listener)));
}

static void reload_list(const char *text, const char *event, int times)
{
	suite_file("items", text);
	process_signal(listener_process(listener), SIGHUP);
	await(listener_count_logged(listener, event) == times, SETTLED_MS, "%s: %s", text,
	      process_errors(listener_process(listener)));
}

Test(feed_client, each_reload_of_a_list_says_what_became_of_it)
{
	const char *path = suite_file("items", "a\nb\n");

	START(URL "\"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", \"per_connection\": 1, "
		  "\"most\": 2}, \"on_open\": [{\"say\": \"$items\"}], " RULES,
	      feed_port(feed), path);
	await(feed_connections(feed) == 2, SETTLED_MS);
	reload_list("", "cannot use the list of a source", 1);
	reload_list("a\nb\nc\n", "cannot use the list of a source", 2);
	await(listener_page_has(listener, "/readyz", "degraded: source played/1: its new list is not in use: "),
	      SETTLED_MS);
	bench_expect_status("\"list\"");
	cr_assert_eq(listener_metric(listener, "wsonce_source_list_unused"), 1);
	reload_list("a\nb\n", "a source's list can be used again", 1);
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_source_list_unused"), 0);
}

static void change_list(const char *text)
{
	suite_file("items", text);
	process_signal(listener_process(listener), SIGHUP);
}

/* Its old connections go on, so nothing else shows that the new items are missing. Lists may follow each other. */
Test(feed_client, a_list_that_the_feed_refuses_is_told, .timeout = 200)
{
	const char *told = "degraded: source played/1: its new list is not in use: played/1 ";

	START(URL "\"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", \"per_connection\": 2, "
		  "\"most\": 2}, \"on_open\": [{\"say\": \"$items\"}], " RULES,
	      feed_port(feed), suite_file("items", "a\n"));
	await(feed_connections(feed) == 1, SETTLED_MS);
	feed_refuse(feed, 403);
	change_list("a\nb\n");
	wait_pause_ms(40000);
	change_list("a\nc\n");
	await(listener_page_has(listener, "/readyz", told), 35000);
	change_list("a\nd\n");
	wait_pause_ms(2000);
	cr_assert(listener_page_has(listener, "/readyz", told));
	feed_refuse(feed, 0);
	await(listener_page_has(listener, "/readyz", "ready\n"), 60000);
}

/* That takes as long as send_rate_per_s makes it, and is no trouble. */
Test(feed_client, a_list_that_takes_long_to_subscribe_is_not_told, .timeout = 200)
{
	char items[200] = "", *at = items;

	for (int i = 1; i <= 66; i++)
		at += sprintf(at, "%d\n", i);
	START(URL "\"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", \"per_connection\": 66}, "
		  "\"send_rate_per_s\": 1, \"on_open\": [{\"each\": \"$items\", \"give\": \"${each}\"}], " RULES,
	      feed_port(feed), suite_file("items", "1\n"));
	await(feed_received(feed) == 1, SETTLED_MS);
	change_list(items);
	await(feed_received(feed) == 64, 80000);
	cr_assert(listener_page_has(listener, "/readyz", "ready\n"), "%s", listener_http(listener, "/readyz", NULL));
	await(listener_has_logged(listener, "source has a new list"), SETTLED_MS);
	cr_assert_not(listener_has_logged(listener, "is not ready for the new list"));
}

/* An item that moves may be another listener's, which may have the old list for a while: half of every_s. */
Test(feed_client, with_readers_a_new_list_does_not_end_the_old_one_at_once)
{
	int64_t since_ms;

	feed_answer(feed, "/list", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[\"a\",\"b\"]");
	bench_start("--readers 1 --config %s",
		    suite_file("sources.json",
			       suite_text("{\"sources\": [{\"name\": \"played\", " URL "\"overlap_s\": 1, \"vars\": "
					  "{\"items\": []}, \"shard\": {\"var\": \"items\", \"per_connection\": 1, "
					  "\"most\": 2}, \"var_http\": {\"items\": {\"url\": "
					  "\"http://127.0.0.1:%d/list\", \"every_s\": 14}}, \"on_open\": [{\"say\": "
					  "\"$items\"}], " RULES "}]}",
					  feed_port(feed), feed_port(feed))));
	cr_assert(feed_wait_clients(feed, 2, SETTLED_MS));
	feed_answer(feed, "/list", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[\"a\"]");
	process_signal(listener_process(listener), SIGHUP);
	since_ms = wait_now_ms();
	await(feed_clients(feed) == 1, SETTLED_MS);
	cr_assert_geq(wait_now_ms() - since_ms, 6000, "it stayed for %ld ms", (long)(wait_now_ms() - since_ms));
}

/* ---- successors that have much to say ---- */

#define SAY_EACH "\"send_rate_per_s\": 10, \"on_open\": [{\"each\": \"$items\", \"give\": \"${each}\"}], "

/* Waits until the first connection is left. By then the second one must have said everything. */
static void expect_that_all_was_said(long words)
{
	int64_t end = wait_now_ms() + SETTLED_MS;

	for (int i = 0; (feed_connections(feed) < 2 || feed_clients(feed) > 1) && wait_now_ms() < end; i++) {
		feed_sendf(feed, "{\"id\":\"%d\"}", i);
		wait_pause_ms(20);
	}
	await(feed_received(feed) == words, 500, "%ld of %ld", feed_received(feed), words);
}

Test(feed_client, a_new_list_takes_over_when_all_of_it_is_subscribed)
{
	char items[200] = "", *at = items;

	for (int i = 1; i <= 40; i++)
		at += sprintf(at, "%d\n", i);
	START(URL "\"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", \"per_connection\": "
		  "50}, " SAY_EACH RULES,
	      feed_port(feed), suite_file("items", items));
	await(feed_received(feed) == 40, SETTLED_MS);
	strcpy(at, "41\n");
	suite_file("items", items);
	process_signal(listener_process(listener), SIGHUP);
	expect_that_all_was_said(40 + 41);
}

/* Whoever restarts listeners one by one stops the next one when this one is ready. */
Test(feed_client, a_listener_that_starts_is_ready_when_it_has_subscribed)
{
	START(URL "\"vars\": {\"items\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}, " SAY_EACH RULES,
	      feed_port(feed));
	await(listener_page_has(listener, "/readyz", "not ready: source played: open: it has not subscribed"),
	      SETTLED_MS);
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	cr_assert_eq(feed_received(feed), 16);
}

/* A feed that restarts at night must not take all listeners from their producers. */
Test(feed_client, a_quiet_feed_that_is_dialled_again_leaves_a_listener_ready)
{
	START(URL "\"vars\": {\"items\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}, " SAY_EACH RULES,
	      feed_port(feed));
	await(feed_received(feed) == 16, SETTLED_MS);
	wait_pause_ms(6000);
	feed_drop_all(feed);
	await(feed_received(feed) > 16 + 1, SETTLED_MS);
	cr_assert(listener_page_has(listener, "/readyz", "ready\n"), "%s", listener_http(listener, "/readyz", NULL));
}

Test(feed_client, a_connection_that_a_new_list_needs_makes_no_listener_unready)
{
	char items[200] = "", *at = items;

	for (int i = 1; i <= 32; i++)
		at += sprintf(at, "%d\n", i);
	START(URL "\"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", \"per_connection\": "
		  "16}, " SAY_EACH RULES,
	      feed_port(feed), suite_file("items", "1\n"));
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	change_list(items);
	await(feed_received(feed) >= 1 + 11, SETTLED_MS); /* one of the two has six left, for a second */
	cr_assert(listener_page_has(listener, "/readyz", "ready\n"), "%s", listener_http(listener, "/readyz", NULL));
	await(listener_has_logged(listener, "source has a new list"), SETTLED_MS);
	cr_assert_eq(feed_received(feed), 1 + 32);
}

Test(feed_client, a_listener_that_starts_is_ready_when_it_has_subscribed_by_answers)
{
	START(URL
	      "\"vars\": {\"items\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}, \"send_rate_per_s\": "
	      "10, \"rules\": [{\"when\": {\"/welcome\": 1}, \"ready\": true, \"send\": [{\"each\": \"$items\", "
	      "\"give\": \"${each}\"}]}, " EVENT "]",
	      feed_port(feed));
	await(listener_page_has(listener, "/readyz", "not ready: source played: open: it has not subscribed"),
	      SETTLED_MS);
	feed_send_text(feed, "{\"welcome\":1}");
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	cr_assert_eq(feed_received(feed), 16);
}

Test(feed_client, a_successor_takes_over_when_it_has_subscribed)
{
	START(URL "\"overlap_s\": 1, \"vars\": {\"items\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
		  "16]}, " SAY_EACH
		  "\"rules\": [{\"when\": {\"/move\": 1}, \"action\": \"reconnect\", \"overlap\": true}, " EVENT "]",
	      feed_port(feed));
	await(feed_received(feed) == 16, SETTLED_MS);
	feed_send_text(feed, "{\"move\":1}");
	expect_that_all_was_said(2 * 16);
}

#define SUCCEED \
	"{\"when\": {\"/move\": {\"exists\": true}}, \"action\": \"reconnect\", \"overlap\": true, \"url\": " \
	"\"${/move}\"}, "

/* Asks for a successor, at /second, and sends this to it alone. */
static void welcome_successor(const char *text)
{
	feed_sendf(feed, "{\"move\":\"ws://127.0.0.1:%d/second\"}", feed_port(feed));
	await(feed_connections(feed) == 2, SETTLED_MS);
	feed_mute(feed, "GET /feed ");
	feed_send_text(feed, text);
	feed_mute(feed, NULL);
}

Test(feed_client, a_successor_that_subscribes_by_answers_takes_over_when_all_are_sent)
{
	START(URL "\"overlap_s\": 1, \"vars\": {\"items\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
		  "16]}, \"send_rate_per_s\": 10, \"rules\": [{\"when\": {\"/welcome\": 1}, \"ready\": true, \"send\": "
		  "[{\"each\": \"$items\", \"give\": \"${each}\"}]}, " SUCCEED EVENT "]",
	      feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "{\"welcome\":1}");
	await(feed_received(feed) == 16, SETTLED_MS);
	welcome_successor("{\"welcome\":1}");
	expect_that_all_was_said(2 * 16);
}

Test(feed_client, a_successor_that_subscribes_by_http_takes_over_when_that_is_answered)
{
	struct feed *api = feed_new();

	feed_answer(api, "/", "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}");
	START(URL
	      "\"rules\": [{\"when\": {\"/welcome\": 1}, \"ready\": true, \"http\": [{\"method\": \"POST\", \"url\": "
	      "\"http://127.0.0.1:%d/\"}]}, " SUCCEED EVENT "]",
	      feed_port(feed), feed_port(api));
	bench_expect_heard(feed, "id", "one");
	feed_freeze(api);
	welcome_successor("{\"welcome\":1}");
	cr_assert_not(wait_until(feed_clients(feed) < 2, 3000), "the old one was left");
	feed_thaw(api);
	await(feed_clients(feed) == 1, SETTLED_MS);
	bench_expect_heard(feed, "id", "two");
	feed_free(api);
}

Test(feed_client, a_source_is_not_open_while_only_its_successor_is_dialled)
{
	struct feed *other = feed_new();

	START(URL "\"overlap_s\": 60, \"rules\": [" SUCCEED EVENT "]", feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_freeze(other);
	feed_sendf(feed, "{\"move\":\"ws://127.0.0.1:%d/\"}", feed_port(other));
	wait_pause_ms(3000); /* by then it is dialled */
	cr_assert(listener_page_has(listener, "/readyz", "ready\n"));
	feed_drop_all(feed);
	await(listener_page_has(listener, "/readyz", "not ready: source played: connecting"), 5000);
	feed_thaw(other);
	bench_expect_heard(other, "id", "two");
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS);
	feed_free(other);
}

/* The feed refuses the connection that is new, which has fresh. What moves to it would be unread. */
Test(feed_client, a_new_list_does_not_take_over_while_a_new_connection_has_stopped)
{
	const char *path = suite_file("items", "old1\nold2\n");

	START("\"url\": \"ws://127.0.0.1:%d/${text:items}\", \"overlap_s\": 1, \"vars\": {\"items\": \"${file:%s}\"}, "
	      "\"shard\": "
	      "{\"var\": "
	      "\"items\", \"per_connection\": 1}, \"rules\": [{\"when\": {\"/no\": 1}, \"action\": \"fatal\"}, " EVENT
	      "]",
	      feed_port(feed), path);
	cr_assert(feed_wait_clients(feed, 2, SETTLED_MS));
	feed_mute(feed, "old");
	suite_file("items", "old1\nold2\nfresh\n");
	process_signal(listener_process(listener), SIGHUP);
	await(feed_connections(feed) >= 3, SETTLED_MS);
	feed_send_text(feed, "{\"no\":1}");
	await(listener_has_logged(listener, "source has stopped"), SETTLED_MS);
	cr_assert_not(wait_until(listener_has_logged(listener, "source has a new list"), 6000));
	suite_file("items", "old1\nold2\n");
	process_signal(listener_process(listener), SIGHUP);
	await(listener_has_logged(listener, "source has a new list"), SETTLED_MS);
	await(listener_page_has(listener, "/readyz", "ready\n"), SETTLED_MS, "a connection without items counts");
	suite_file("items", "old1\nold2\nbetter\n");
	process_signal(listener_process(listener), SIGHUP);
	await(feed_clients(feed) == 3, SETTLED_MS, "the connection that had stopped is not dialled");
}

Test(feed_client, a_new_list_does_not_take_over_while_a_stopped_connection_is_refused_again)
{
	START(URL "\"overlap_s\": 1, \"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", "
		  "\"per_connection\": 1}, \"rules\": [{\"when\": {\"/no\": 1}, \"action\": \"fatal\"}, " EVENT "]",
	      feed_port(feed), suite_file("items", "bad\n"));
	for (int i = 1; i <= 2; i++) {
		await(feed_connections(feed) == i, SETTLED_MS);
		feed_send_text(feed, "{\"no\":1}");
		await(listener_count_logged(listener, "source has stopped") == i, SETTLED_MS);
		suite_file("items", "worse\n");
		if (i == 1)
			process_signal(listener_process(listener), SIGHUP);
	}
	cr_assert_not(wait_until(listener_has_logged(listener, "source has a new list"), 4000));
	suite_file("items", "good\n");
	process_signal(listener_process(listener), SIGHUP);
	await(listener_has_logged(listener, "source has a new list"), SETTLED_MS);
}

/* A connection that is made while a new list is not ready yet has nothing of the old one. */
Test(feed_client, an_item_that_comes_back_is_subscribed_again)
{
	START(URL "\"overlap_s\": 60, \"vars\": {\"items\": \"${file:%s}\"}, \"shard\": {\"var\": \"items\", "
		  "\"per_connection\": 9}, \"on_open\": [\"${items}\"], \"on_change\": {\"subscribe\": \"${items}\", "
		  "\"unsubscribe\": \"${items}\"}, \"rules\": [{\"when\": {\"/ok\": 1}, \"ready\": true}, " EVENT "]",
	      feed_port(feed), suite_file("items", "a\n"));
	await(feed_received(feed) == 1, SETTLED_MS);
	suite_file("items", "b\n");
	process_signal(listener_process(listener), SIGHUP);
	await(feed_received(feed) == 2, SETTLED_MS);
	feed_drop_all(feed);
	await(feed_received(feed) == 3, SETTLED_MS);
	suite_file("items", "a\n");
	process_signal(listener_process(listener), SIGHUP);
	await(feed_received(feed) == 4, SETTLED_MS, "it is not subscribed to a");
}

#define LIST(text) "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" text

/* What stopped at the start had its items from nobody. */
Test(feed_client, a_connection_that_has_stopped_at_the_start_does_not_keep_old_lists)
{
	feed_answer(feed, "/list", LIST("[\"a\",\"bad\"]"));
	START("\"url\": \"ws://127.0.0.1:%d/${text:items}\", \"overlap_s\": 1, \"vars\": {\"items\": []}, \"shard\": "
	      "{\"var\": \"items\", \"per_connection\": 1}, \"var_http\": {\"items\": {\"url\": "
	      "\"http://127.0.0.1:%d/list\"}}, \"rules\": [{\"when\": {\"/no\": 1}, \"action\": \"fatal\"}, " EVENT "]",
	      feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 2, SETTLED_MS));
	feed_mute(feed, "GET /a ");
	feed_send_text(feed, "{\"no\":1}");
	await(listener_has_logged(listener, "source has stopped"), SETTLED_MS);
	feed_mute(feed, NULL);
	await(listener_has_logged(listener, "source has a new list"), SETTLED_MS);
	feed_answer(feed, "/list", LIST("[\"b\",\"bad\"]"));
	process_signal(listener_process(listener), SIGHUP);
	await(listener_count_logged(listener, "source has a new list") == 2, SETTLED_MS);
	await(feed_clients(feed) == 1, SETTLED_MS);
}

Test(feed_client, no_secret_is_told_anywhere)
{
	START("\"url\": \"ws://127.0.0.1:%d/feed/${env:FEED_SECRET}?token=${env:FEED_SECRET}\", \"headers\": "
	      "{\"X-Key\": "
	      "\"${env:FEED_SECRET}\"}, \"on_open\": [\"${env:FEED_SECRET}\"], \"rules\": [{\"name\": \"bad\", "
	      "\"when\": "
	      "{\"/bad\": 1}, \"action\": \"reject\"}, {\"name\": \"end\", \"when\": {\"/end\": 1}, \"action\": "
	      "\"fatal\"}, {\"when\": {\"/move\": 1}, \"action\": \"reconnect\", \"url\": \"${/url}\"}, "
	      "{\"when\": {\"/ticket\": {\"exists\": true}}, \"capture\": {\"ticket\": \"/ticket\"}}, "
	      "{\"when\": {\"/at\": {\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/id\"]], \"cursor\": "
	      "\"/at\"}, " EVENT "], \"split\": \"array\", \"cursor\": {\"kind\": \"max\", \"scope\": \"source\"}",
	      feed_port(feed));
	bench_expect_heard(feed, "id", "one");
	feed_send_text(feed, "{\"unknown\":\"" SECRET "\"}");
	await(listener_has_logged(listener, "match no rule"), SETTLED_MS);
	feed_send_text(feed, "{\"bad\":1,\"why\":\"" SECRET "\"}");
	await(listener_has_logged(listener, "became dead letters"), SETTLED_MS);
	feed_send_text(feed, "{\"id\":\"c\",\"at\":7}");
	feed_send_text(feed, "{\"id\":\"d\",\"at\":\"" SECRET "\"}");
	await(listener_has_logged(listener, "ignoring invalid data"), SETTLED_MS);
	feed_send_text(feed, "{\"move\":1,\"url\":\"ws://" SECRET "/\"}");
	await(listener_has_logged(listener, "does not name"), SETTLED_MS);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "[{\"ticket\":\"a\\/ticket\"},{\"id\":\"t\"}]");
	feed_send(feed, FRAME_CLOSE, true, "\x0f\xa0wrong " SECRET " a/ticket", 17 + strlen(SECRET));
	await(listener_has_logged(listener, "closed the connection with 4000: wrong "), SETTLED_MS);
	cr_assert_not(listener_has_logged(listener, "a/ticket"));
	expect_no_secret("/api/status", listener_http(listener, "/api/status", NULL));
	await(feed_connections(feed) == 3 && feed_clients(feed) == 1, SETTLED_MS);
	bench_expect_heard(feed, "id", "two");
	feed_send_text(feed, "{\"end\":1,\"why\":\"" SECRET "\"}");
	bench_expect_status("\"stopped\"");
	expect_no_secret("/api/status", listener_http(listener, "/api/status", NULL));
	expect_no_secret("/metrics", listener_http(listener, "/metrics", NULL));
	expect_no_secret("the log", process_errors(listener_process(listener)));
}
