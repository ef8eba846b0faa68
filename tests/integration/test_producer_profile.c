/* Producers with a profile: which messages are events, and the acks that it describes. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000

static void listen_by(const char *profile, const char *flags)
{
	char *path = suite_file("sink.json", profile);

	listener = listener_start(&(struct listener_options){.database = db}, "--ingest-profile %s %s", path,
				  flags ? flags : "");
}

static void open_producer(const char *subprotocol)
{
	producer = peer_open_events(listener_ingest_port(listener), subprotocol);
}

static void expect_from(struct peer *p, const char *text)
{
	char *got = peer_recv(p, WAIT_MS);

	cr_assert(got && strcmp(got, text) == 0, "%s, not %s", got ? got : "nothing", text);
}

static void expect(const char *text)
{
	expect_from(producer, text);
}

static void expect_nothing_more(void)
{
	cr_assert_null(peer_recv(producer, 50));
}

static long letters(const char *reason)
{
	return bench_count("dead_letters WHERE reason LIKE '%%%s%%'", reason);
}

/* Uses the profile of the docs, so that they stay correct. */
static const char *page_profile(void)
{
	char *begin = strstr(suite_read("docs/feeds/producers.md"), "```json\n");
	char *end = begin ? strstr(begin + 8, "```") : NULL;

	cr_assert(end);
	*end = '\0';
	return begin + 8;
}

TestSuite(producer_profile, .init = bench_open, .fini = bench_close, .timeout = 120);

#define NOTE(id) "[\"EVENT\",{\"id\":\"" id "\",\"kind\":1,\"created_at\":1700000000,\"content\":\"0.10\"}]"

Test(producer_profile, a_nostr_client_is_answered_as_by_a_relay)
{
	listen_by(page_profile(), NULL);
	open_producer(NULL);
	peer_send_text(producer, NOTE("aa"));
	expect("[\"OK\",\"aa\",true,\"\"]");
	cr_assert_eq(bench_count("events WHERE event_id = 'aa' AND event_type = '1' AND payload->>'content' = '0.10'"),
		     1);
	peer_send_text(producer, NOTE("aa"));
	expect("[\"OK\",\"aa\",true,\"duplicate: have it already\"]");
	peer_send_text(producer, "[\"REQ\",\"sub\",{}]");
	expect("[\"EOSE\",\"sub\"]");
	peer_send_text(producer, "[\"EVENT\",{\"kind\":1}]");
	char *notice = peer_recv(producer, WAIT_MS);
	cr_assert(notice && strstr(notice, "/id is missing: the event has no id"), "%s", notice);
	peer_send_text(producer, "[\"CLOSE\",\"sub\"]");
	peer_send_text(producer, "no \"JSON\"");
	notice = peer_recv(producer, WAIT_MS);
	cr_assert(notice && strncmp(notice, "[\"NOTICE\",\"error: ", 18) == 0, "%s", notice);
	expect_nothing_more();
	cr_assert_eq(letters("is missing: the event has no id"), 1);
	cr_assert_eq(bench_rows(), 1);
}

/* The reason is Postgres's own text, with quotes in it. */
Test(producer_profile, an_event_that_postgres_refuses_is_answered_by_the_error_with_its_reason)
{
	listen_by(page_profile(), "--max-attempts 1");
	database_exec(db, "ALTER TABLE events ADD CONSTRAINT \"no 'bb'\" CHECK (event_id <> 'bb')");
	open_producer(NULL);
	peer_send_text(producer, NOTE("bb"));
	char *answer = peer_recv(producer, WAIT_MS);
	cr_assert(answer && strncmp(answer, "[\"OK\",\"bb\",false,\"error: ", 25) == 0 &&
			  strstr(answer, "\\\"no 'bb'\\\""),
		  "%s", answer);
	peer_send_text(producer, NOTE("cc"));
	expect("[\"OK\",\"cc\",true,\"\"]");
}

#define BATCH \
	"{\"name\": \"batch\", \"ack\": {\"ok\": \"${/k}\", \"n\": \"${n}\", \"first\": \"${event_id}\"}, " \
	"\"ack_duplicate\": {\"again\": \"${/k}\"}, \"ack_error\": {\"failed\": \"${/k}\", \"why\": \"${reason}\"}, " \
	"%s" \
	"\"rules\": [{\"when\": {\"/list\": {\"type\": \"array\"}}, \"action\": \"event\", \"explode\": \"/list/*\", " \
	"\"where\": {\"/skip\": {\"exists\": false}}, \"id\": [[\"=b\", \"/id\"], [\"/alt\"]], \"payload\": \"\"}]}"

Test(producer_profile, a_frame_of_many_is_answered_once_when_all_of_them_are_stored)
{
	listen_by(suite_text(BATCH, ""), NULL);
	open_producer(NULL);
	peer_send_text(producer, "{\"k\":1,\"list\":[{\"id\":1},{\"alt\":\"x\"},{\"skip\":1}]}");
	expect("{\"ok\":1,\"n\":1,\"first\":\"b|1\"}");
	peer_send_text(producer, "{\"k\":2,\"list\":[{\"id\":1},{\"alt\":\"x\"}]}");
	expect("{\"again\":2}");
	peer_send_text(producer, "{\"k\":3,\"list\":[{\"id\":1},{\"id\":2}]}");
	expect("{\"ok\":3,\"n\":3,\"first\":\"b|1\"}");
	peer_send_text(producer, "{\"k\":4,\"list\":[{\"id\":3},{\"alt\":\"\"},{\"id\":4}]}");
	char *answer = peer_recv(producer, WAIT_MS);
	cr_assert(answer &&
			  strncmp(answer, "{\"failed\":4,\"why\":\"/id is missing, /alt is empty: the event", 56) == 0,
		  "%s", answer);
	peer_send_text(producer, "{\"k\":5,\"list\":[{\"skip\":1}]}");
	expect("{\"ok\":5,\"n\":5,\"first\":null}");
	peer_send_text(producer, "{\"k\":6,\"list\":[]}");
	expect("{\"ok\":6,\"n\":6,\"first\":null}");
	expect_nothing_more();
	cr_assert_eq(bench_rows(), 5);
	cr_assert_eq(bench_count("dead_letters WHERE source = 'batch'"), 1);
}

Test(producer_profile, no_ack_goes_out_before_the_commit)
{
	listen_by(suite_text(BATCH, ""), NULL);
	open_producer(NULL);
	struct database *lock = fleet_lock(db);
	peer_send_text(producer, "{\"k\":1,\"list\":[{\"id\":1},{\"id\":2}]}");
	await(listener_metric(listener, "wsonce_received_total") == 2, WAIT_MS);
	cr_assert_null(peer_recv(producer, 300));
	fleet_unlock(lock);
	expect("{\"ok\":1,\"n\":1,\"first\":\"b|1\"}");
}

Test(producer_profile, a_late_ack_is_sent_and_counted)
{
	listen_by(suite_text(BATCH, "\"ack_deadline_ms\": 100, "), NULL);
	open_producer(NULL);
	peer_send_text(producer, "{\"k\":0,\"list\":[]}");
	expect("{\"ok\":0,\"n\":1,\"first\":null}");
	cr_assert_eq(listener_metric(listener, "wsonce_acks_late_total"), 0);
	struct database *lock = fleet_lock(db);
	peer_send_text(producer, "{\"k\":1,\"list\":[{\"id\":1}]}");
	cr_assert_null(peer_recv(producer, 200));
	fleet_unlock(lock);
	expect("{\"ok\":1,\"n\":2,\"first\":\"b|1\"}");
	cr_assert_eq(listener_metric(listener, "wsonce_acks_late_total"), 1);
	cr_assert(listener_has_logged(listener, "source=batch acks=1"));
}

Test(producer_profile, the_profile_has_its_own_limit_of_a_message)
{
	listen_by(suite_text(BATCH, "\"max_message_bytes\": 2000000, "), "--max-message 1KiB");
	open_producer(NULL);
	peer_sendf(producer, "{\"k\":1,\"list\":[{\"id\":1,\"filling\":\"%01900000d\"}]}", 0);
	expect("{\"ok\":1,\"n\":1,\"first\":\"b|1\"}");
	peer_sendf(producer, "{\"k\":2,\"list\":[{\"id\":2,\"filling\":\"%02000000d\"}]}", 0);
	cr_assert_eq(peer_recv_close(producer, WAIT_MS), 1009);
	cr_assert_eq(bench_rows(), 1);
}

Test(producer_profile, cumulative_acks_speak_for_all_before_them)
{
	listen_by(suite_text(BATCH, "\"ack_mode\": \"cumulative\", "), NULL);
	open_producer(NULL);
	struct database *lock = fleet_lock(db);
	for (int k = 1; k <= 5; k++)
		peer_sendf(producer, "{\"k\":%d,\"list\":[{\"id\":%d}]}", k, k);
	peer_send_text(producer, "{\"k\":6,\"list\":[]}");
	await(listener_metric(listener, "wsonce_received_total") == 5, WAIT_MS);
	cr_assert_null(peer_recv(producer, 100), "said before what came earlier is stored");
	fleet_unlock(lock);
	for (;;) {
		char *answer = peer_recv(producer, WAIT_MS);
		int k = 0;

		cr_assert(answer && sscanf(answer, "{\"ok\":%d,", &k) == 1, "%s", answer);
		if (k == 6)
			break;
	}
	cr_assert_eq(bench_rows(), 5);
}

Test(producer_profile, so_many_unacked_messages_are_read_and_no_more)
{
	listen_by(suite_text(BATCH, "\"max_unacked\": 3, "), NULL);
	open_producer(NULL);
	struct database *lock = fleet_lock(db);
	for (int k = 1; k <= 50; k++) {
		peer_sendf(producer, "{\"k\":%d,\"list\":[{\"id\":%d}]}", k, k);
		if (k == 1)
			await(listener_metric(listener, "wsonce_received_total") == 1, WAIT_MS);
	}
	await(listener_metric(listener, "wsonce_received_total") >= 3, WAIT_MS);
	cr_assert_null(peer_recv(producer, 300));
	cr_assert_lt(listener_metric(listener, "wsonce_received_total"), 50);
	fleet_unlock(lock);
	for (int k = 1; k <= 50; k++)
		cr_assert_not_null(peer_recv(producer, WAIT_MS));
	cr_assert_eq(bench_rows(), 50);
}

/* ---- who may come, and how ---- */

#define DOOR \
	"{\"name\": \"door\", \"accept_subprotocols\": [\"chat.v2\", \"chat.v1\"], " \
	"\"tokens\": {\"till\": \"${env:SINK_TOKEN}\"}, \"ack\": {\"got\": \"${/id}\"}, \"rules\": [" \
	"{\"when\": {\"/id\": {\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/id\"]]}]}"

static struct peer *open_with(const char *subprotocol, const char *token, int *status)
{
	return peer_open(listener_ingest_port(listener), "/events", subprotocol, token, status);
}

Test(producer_profile, subprotocols_and_tokens_are_the_profiles_own)
{
	const char *const env[] = {"SINK_TOKEN=a-token-of-its-own", NULL};
	int status;

	listener = listener_start(&(struct listener_options){.database = db, .env = env}, "--ingest-profile %s",
				  suite_file("sink.json", DOOR));
	cr_assert_null(open_with("chat.v1", NULL, &status));
	cr_assert_eq(status, 401);
	cr_assert_null(open_with("chat.v1", "another", &status));
	cr_assert_eq(status, 401);
	producer = open_with("chat.v3, chat.v1", "a-token-of-its-own", &status);
	cr_assert_eq(status, 101);
	cr_assert_str_eq(peer_subprotocol(producer), "chat.v1");
	peer_send_text(producer, "{\"id\":\"e\"}");
	expect("{\"got\":\"e\"}");
	cr_assert_eq(listener_metric(listener, "wsonce_token_messages_total{token=\"till\"}"), 1);
	cr_assert(!listener_has_logged(listener, "a-token-of-its-own"));
}

Test(producer_profile, a_producer_that_asks_for_the_listeners_own_acks_gets_them)
{
	listen_by(suite_text(BATCH, ""), NULL);
	open_producer("wsonce.ack.v1");
	peer_send_text(producer, "{\"k\":1,\"list\":[{\"skip\":1}]}");
	peer_send_text(producer, "{\"k\":2,\"list\":[{\"id\":7}]}");
	struct ack *ack = ack_read(producer, WAIT_MS);
	cr_assert_str_eq(ack->event_id, "b|7");
	cr_assert_eq(ack->n, 2);
	expect_nothing_more();
}

/* ---- what a rule does to the connection ---- */

#define MOODS \
	"{\"name\": \"moods\", \"ack\": {\"of\": \"${who}\"}, \"rules\": [" \
	"{\"when\": {\"/op\": \"hello\"}, \"action\": \"ignore\", \"capture\": {\"who\": \"/me\"}, " \
	"\"send\": [{\"welcome\": \"${who}\"}]}, " \
	"{\"when\": {\"/op\": \"bye\"}, \"action\": \"reconnect\"}, " \
	"{\"when\": {\"/op\": \"boo\"}, \"action\": \"fatal\"}, " \
	"{\"when\": {\"/op\": \"put\"}, \"action\": \"event\", \"id\": [[\"$who\", \"/id\"]]}]}"

Test(producer_profile, variables_are_each_connections_own)
{
	listen_by(MOODS, NULL);
	open_producer(NULL);
	struct peer *other = peer_open_events(listener_ingest_port(listener), NULL);
	peer_send_text(producer, "{\"op\":\"hello\",\"me\":\"ann\"}");
	expect("{\"welcome\":\"ann\"}");
	peer_send_text(other, "{\"op\":\"hello\",\"me\":\"ben\"}");
	expect_from(other, "{\"welcome\":\"ben\"}");
	peer_send_text(producer, "{\"op\":\"put\",\"id\":1}");
	expect("{\"of\":\"ann\"}");
	peer_send_text(other, "{\"op\":\"put\",\"id\":1}");
	expect_from(other, "{\"of\":\"ben\"}");
	cr_assert_eq(bench_count("events WHERE event_id IN ('ann|1', 'ben|1')"), 2);
	peer_free(other);
	other = peer_open_events(listener_ingest_port(listener), NULL);
	peer_send_text(other, "{\"op\":\"put\",\"id\":1}");
	await(letters("is missing: the event has no id") == 1, WAIT_MS, "a variable was left over");
	peer_free(other);
}

static void expect_end(const char *op, int code)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);

	peer_send_text(p, "{\"op\":\"hello\",\"me\":\"ann\"}");
	expect_from(p, "{\"welcome\":\"ann\"}");
	peer_sendf(p, "{\"op\":\"put\",\"id\":\"%s\"}", op);
	peer_sendf(p, "{\"op\":\"%s\"}", op);
	expect_from(p, "{\"of\":\"ann\"}");
	cr_assert_eq(peer_recv_close(p, WAIT_MS), code);
	peer_free(p);
}

Test(producer_profile, rules_end_a_connection_when_all_is_answered)
{
	listen_by(MOODS, NULL);
	expect_end("bye", 1000);
	expect_end("boo", 1008);
}

Test(producer_profile, a_producer_that_fills_its_variables_is_sent_away)
{
	char *name = malloc(20001);

	memset(name, 'x', 20000);
	name[20000] = '\0';
	listen_by(MOODS, NULL);
	open_producer(NULL);
	peer_sendf(producer, "{\"op\":\"hello\",\"me\":\"%s\"}", name);
	cr_assert_eq(peer_recv_close(producer, WAIT_MS), 1008);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

/* Their variables would be more than the whole budget. */
Test(producer_profile, variables_of_idle_producers_do_not_keep_out_others)
{
	static char name[7001];
	struct peer *idle[200];

	memset(name, 'x', 7000);
	listen_by(MOODS, "--max-inflight-bytes 1MiB --max-message 64KiB");
	for (int i = 0; i < 200; i++) {
		idle[i] = peer_open_events(listener_ingest_port(listener), NULL);
		peer_sendf(idle[i], "{\"op\":\"hello\",\"me\":\"%s\"}", name);
	}
	open_producer(NULL);
	peer_send_text(producer, "{\"op\":\"hello\",\"me\":\"ann\"}");
	expect("{\"welcome\":\"ann\"}");
	peer_send_text(producer, "{\"op\":\"put\",\"id\":1}");
	expect("{\"of\":\"ann\"}");
	cr_assert_leq(listener_metric(listener, "wsonce_in_flight_bytes"), 600000);
	cr_assert_geq(listener_metric(listener, "wsonce_ingest_connections"), 50);
	for (int i = 0; i < 200; i++)
		peer_free(idle[i]);
}

/* ---- bad input ---- */

Test(producer_profile, a_frame_of_too_many_elements_is_one_dead_letter)
{
	char *text = malloc(200000), *at = text;

	listen_by(suite_text(BATCH, ""), NULL);
	open_producer(NULL);
	at += sprintf(at, "{\"k\":1,\"list\":[0");
	for (int i = 0; i < 10000; i++)
		at += sprintf(at, ",%d", i);
	sprintf(at, "]}");
	peer_send_text(producer, text);
	expect("{\"failed\":1,\"why\":\"the frame has more elements than max_elements\"}");
	cr_assert_eq(bench_count("dead_letters"), 1);
}

/* As if no rule matched it: it has no events that are stored. */
Test(producer_profile, a_message_without_the_list_of_its_rule_is_not_answered)
{
	listen_by("{\"name\": \"lists\", \"ack\": \"${/k}\", \"rules\": [{\"action\": \"event\", \"explode\": "
		  "\"/list/*\", "
		  "\"id\": [[\"/id\"]]}]}",
		  NULL);
	open_producer(NULL);
	peer_send_text(producer, "{\"k\":1,\"items\":[{\"id\":1}]}");
	peer_send_text(producer, "{\"k\":2,\"list\":[]}");
	expect("2");
	peer_send_text(producer, "{\"k\":3,\"list\":{\"id\":1}}");
	peer_send_text(producer, "{\"k\":4,\"list\":[{\"id\":1}]}");
	expect("4");
	expect_nothing_more();
}

Test(producer_profile, a_split_message_is_answered_frame_by_frame_and_has_a_limit)
{
	char *text = malloc(300000), *at = text;

	listen_by("{\"name\": \"lines\", \"split\": \"ndjson\", \"max_elements\": 100, \"ack\": \"${/id}\", "
		  "\"ack_error\": \"${reason}\", \"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}",
		  NULL);
	open_producer(NULL);
	peer_send_text(producer, "{\"id\":1}\n{\"id\":2}\nbad\n{\"id\":3}\n");
	long sum = 0;
	int bad = 0;
	for (int i = 0; i < 4; i++) {
		char *answer = peer_recv(producer, WAIT_MS);

		cr_assert_not_null(answer);
		sum += strtol(answer, NULL, 10);
		bad += *answer == '"';
	}
	cr_assert(sum == 6 && bad == 1);
	for (int i = 0; i < 10000; i++)
		at += sprintf(at, "bad %d\n", i);
	peer_send_text(producer, text);
	expect("\"the message has more frames than max_elements\"");
	cr_assert_eq(bench_count("dead_letters"), 2);
}

Test(producer_profile, a_producer_that_reads_no_answers_stops_nobody_else)
{
	char *filling = malloc(4001);
	int sent = 0;

	memset(filling, 'f', 4000);
	filling[4000] = '\0';
	listen_by("{\"name\": \"echo\", \"ack\": {\"echo\": \"${/text}\"}, "
		  "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}",
		  "--max-inflight-bytes 8MiB");
	struct peer *deaf = peer_open_events(listener_ingest_port(listener), NULL);
	peer_set_deadline(deaf, 500);
	while (sent < 5000 && peer_sendf(deaf, "{\"id\":\"d%d\",\"text\":\"%s\"}", sent, filling))
		sent++;
	cr_assert_lt(sent, 5000, "all of it was read");
	open_producer(NULL);
	peer_send_text(producer, "{\"id\":\"n\",\"text\":\"still here\"}");
	expect("{\"echo\":\"still here\"}");
	peer_reset(deaf);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
	peer_free(deaf);
}

Test(producer_profile, a_producer_that_leaves_before_its_answer_loses_nothing)
{
	listen_by(suite_text(BATCH, ""), NULL);
	open_producer(NULL);
	struct database *lock = fleet_lock(db);
	peer_send_text(producer, "{\"k\":1,\"list\":[{\"id\":1},{\"id\":2},{}]}");
	await(listener_metric(listener, "wsonce_received_total") == 3, WAIT_MS);
	peer_reset(producer);
	fleet_unlock(lock);
	await(bench_rows() == 2 && letters("is missing: the event has no id") == 1, WAIT_MS);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

Test(producer_profile, a_listener_that_drains_answers_what_it_has_taken)
{
	listen_by(suite_text(BATCH, ""), NULL);
	open_producer(NULL);
	for (int k = 1; k <= 200; k++)
		peer_sendf(producer, "{\"k\":%d,\"list\":[{\"id\":%d},{\"id\":\"x%d\"}]}", k, k, k);
	await(listener_metric(listener, "wsonce_received_total") > 0, WAIT_MS);
	process_signal(listener_process(listener), SIGTERM);
	long answers = 0;
	while (peer_recv(producer, WAIT_MS))
		answers++;
	cr_assert_eq(process_wait(listener_process(listener), WAIT_MS), 0);
	listener_free(listener);
	listener = NULL;
	cr_assert(answers > 0 && answers * 2 == bench_rows(), "%ld answers, %ld rows", answers, bench_rows());
}

Test(producer_profile, a_shipped_profile_serves_producers_too)
{
	listener = listener_start(&(struct listener_options){.database = db}, "--ingest-profile cloudevents");
	open_producer("wsonce.ack.v1");
	peer_send_text(producer, "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\"}");
	ack_expect(producer, "/s|1", "persisted");
	peer_send_text(producer, "{\"id\":\"1\"}");
	ack_expect_rejected(producer, NULL, "no rule of the profile matches");
}
