/* `fill` of a profile: events that no connection brought are asked for by HTTP. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 30000
#define LEFT_MS    60000
#define NEWCOMERS  5
#define SOURCES    8

static struct feed *feed;
static struct fleet fleet;
static int sent;

/* A fleet of one whose profile has these printf-like members; %d in them is the feed's port. */
#define START(...) \
	bench_dial(NULL, NULL, "--log-level debug --config %s", \
		   suite_file("sources.json", \
			      suite_text("{\"sources\": [{\"name\": \"played\", %s}]}", suite_text(__VA_ARGS__))))

static void set_up(void)
{
	feed = feed_new();
}

TestSuite(fill, .init = set_up, .fini = bench_close, .timeout = 120);

#define URL   "\"url\": \"ws://127.0.0.1:%d/feed\", "
#define GAP   "\"gap\": {\"key\": \"/of\", \"seq\": \"/n\", \"contiguous\": true}, "
#define EVENT "{\"when\": {\"/id\": {\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/id\"]]"
#define RULES "\"rules\": [" EVENT "}]"
#define FILL(more) \
	"\"fill\": {\"http\": {\"url\": \"http://127.0.0.1:%d/missing/${gap_key}/${gap_from}/${gap_to}\"}, " \
	"\"events\": \"/list\", \"every_s\": 0.01" more "}, "

static void answer(const char *path, int status, const char *body)
{
	feed_answer(feed, path,
		    suite_text("HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body));
}

static void send_number(int n)
{
	feed_sendf(feed, "{\"id\":\"e-%d\",\"of\":\"a\",\"n\":%d}", n, n);
}

static bool is_counted(const char *name, long value)
{
	return listener_metric(listener, name) == value;
}

static long stored(const char *where)
{
	return bench_count("events WHERE %s", where);
}

Test(fill, a_hole_in_the_numbers_is_filled)
{
	answer("/missing/a/3/5", 200,
	       "{\"list\":[{\"id\":\"e-5\",\"of\":\"a\",\"n\":5},{\"id\":\"e-4\",\"of\":\"a\",\"n\":4},"
	       "{\"id\":\"e-3\",\"of\":\"a\",\"n\":3},{\"id\":\"e-2\",\"of\":\"a\",\"n\":2}]}");
	START(URL GAP FILL("") RULES, feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(2);
	send_number(6);
	await(stored("true") == 6, SETTLED_MS, "%s", process_errors(listener_process(listener)));
	cr_assert_eq(stored("source = 'played#fill'"), 3);
	await(is_counted("wsonce_feed_filled_total{source=\"played\"}", 3), SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_feed_missing_total{source=\"played\"}"), 3);
	cr_assert_eq(listener_metric(listener, "wsonce_fill_calls_total"), 1);
	cr_assert(listener_has_logged(listener, "fetched events that a source did not send"));
	cr_assert_eq(listener_stop(listener), 0);
	cr_assert_eq(database_long(db, "SELECT sum(filled) FROM line_minutes"), 3);
}

/* The answer has the end of the hole first. */
/* Else it would hide another hole in the report. */
Test(fill, what_was_stored_before_counts_as_no_hole)
{
	answer("/missing/a/3/4", 200,
	       "{\"list\":[{\"id\":\"e-3\",\"of\":\"a\",\"n\":3},{\"id\":\"e-4\",\"of\":\"a\",\"n\":4}]}");
	START(URL GAP FILL("") RULES, feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "{\"id\":\"e-3\"}"); /* as from another line */
	send_number(2);
	send_number(5);
	await(is_counted("wsonce_feed_filled_total{source=\"played\"}", 2), SETTLED_MS);
	await(stored("true") == 4, SETTLED_MS);
	cr_assert_eq(listener_stop(listener), 0);
	cr_assert_eq(database_long(db, "SELECT sum(filled) FROM line_minutes"), 1);
}

Test(fill, a_page_that_has_a_part_is_followed_by_another)
{
	answer("/missing/a/2/5", 200, "{\"list\":[]}");
	START(URL GAP FILL("") RULES, feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(6);
	await(listener_metric(listener, "wsonce_fill_calls_total") >= 1, SETTLED_MS);
	answer("/missing/a/2/5", 200,
	       "{\"list\":[{\"id\":\"e-5\",\"of\":\"a\",\"n\":5},{\"id\":\"e-4\",\"of\":\"a\",\"n\":4},"
	       "{\"id\":\"b\",\"of\":\"b\",\"n\":3}]}");
	await(is_counted("wsonce_feed_filled_total{source=\"played\"}", 2), SETTLED_MS);
	answer("/missing/a/2/3", 200,
	       "{\"list\":[{\"id\":\"e-2\",\"of\":\"a\",\"n\":2},{\"id\":\"e-3\",\"of\":\"a\",\"n\":3}]}");
	await(is_counted("wsonce_feed_filled_total{source=\"played\"}", 4), SETTLED_MS);
	await(stored("event_id LIKE 'e-%%'") == 6, SETTLED_MS);
}

Test(fill, an_error_is_tried_again_and_a_refusal_is_not)
{
	answer("/missing/a/2/2", 503, "wait");
	START(URL GAP FILL("") RULES, feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(3);
	await(listener_metric(listener, "wsonce_fill_calls_total") >= 2, SETTLED_MS);
	answer("/missing/a/2/2", 200, "{\"list\":[{\"id\":\"e-2\",\"of\":\"a\",\"n\":2}]}");
	await(stored("true") == 3, SETTLED_MS);
	answer("/missing/a/4/7", 403, "not you");
	send_number(8);
	await(listener_has_logged(listener, "cannot fetch all events that a source did not send"), SETTLED_MS);
	cr_assert(listener_has_logged(listener, "answered 403: not you"));
	cr_assert(listener_has_logged(listener, "a 4 to 7"));
	cr_assert_eq(listener_metric(listener, "wsonce_fills_failed_total"), 1);
	answer("/missing/a/9/9", 200,
	       "{\"list\":[{\"id\":\"\",\"of\":\"a\",\"n\":9},[],{\"id\":\"e-9\",\"of\":\"a\",\"n\":9}]}");
	send_number(10);
	await(stored("true") == 6, SETTLED_MS, "the next one is asked for");
	await(bench_count("dead_letters") == 1, SETTLED_MS);
}

/* Pages of two: each is asked for with the cursor of the one before. The frames of the feed have another form. */
Test(fill, what_came_while_nobody_was_connected_is_asked_for_by_the_cursor)
{
	answer("/since/1", 200, "[{\"uid\":1},{\"uid\":0}]"); /* full, but it leads nowhere */
	START(URL "\"cursor\": {\"kind\": \"max\"}, \"fill\": {\"http\": {\"url\": "
		  "\"http://127.0.0.1:%d/since/${cursor}\"}, "
		  "\"events\": \"\", \"frame\": {\"id\": \"e-${/uid}\", \"seq\": \"${/uid}\", \"all\": \"${}\"}, "
		  "\"max\": 2, "
		  "\"every_s\": 0.01}, \"backoff\": {\"min_ms\": 10, \"max_ms\": 20}, "
		  "\"rules\": [" EVENT ", \"cursor\": \"/seq\"}]",
	      feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_send_text(feed, "{\"id\":\"e-1\",\"seq\":1}");
	await(bench_count("cursors") == 1, SETTLED_MS);
	feed_refuse(feed, 410); /* not for the cursor, of which it does not know */
	feed_drop_all(feed);
	await(feed_refusals(feed) >= 1, SETTLED_MS);
	feed_refuse(feed, 0);
	await(feed_connections(feed) >= 2, SETTLED_MS);
	feed_send_text(feed, "{\"id\":\"e-6\",\"seq\":6}");
	await(listener_metric(listener, "wsonce_fill_calls_total") >= 2, SETTLED_MS, "it counts as the end");
	answer("/since/1", 200, "[{\"uid\":2},{\"uid\":3}]");
	await(stored("event_id > 'e-1'") == 3, SETTLED_MS);
	answer("/since/3", 200, "[{\"uid\":4},{\"uid\":5}]");
	await(stored("event_id > 'e-1'") == 5, SETTLED_MS);
	answer("/since/5", 200, "[{\"uid\":6}]");
	await(listener_has_logged(listener, "fetched events that a source did not send"), SETTLED_MS);
	cr_assert_eq(stored("payload->'all'->>'uid' = '4'"), 1);
	cr_assert_eq(stored("event_id > 'e-0'"), 6);
}

/* The others of the page are read. */
Test(fill, an_element_with_half_a_surrogate_pair_is_one_dead_letter)
{
	answer("/missing/a/2/4", 200,
	       "{\"list\":[{\"id\":\"e-2\",\"of\":\"a\",\"n\":2},{\"id\":\"e-3\",\"of\":\"a\",\"n\":3,\"text\":"
	       "\"\\ud800\"},{\"id\":\"e-4\",\"of\":\"a\",\"n\":4}]}");
	START(URL GAP FILL(", \"frame\": {\"id\": \"${/id}\", \"of\": \"${/of}\", \"n\": \"${/n}\", \"text\": "
			   "\"got ${/text}\"}") RULES,
	      feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(5);
	cr_assert(wait_until(stored("true") == 4, SETTLED_MS), "%s", process_errors(listener_process(listener)));
	cr_assert(wait_until(database_long(db, "SELECT count(*) FROM dead_letters WHERE reason LIKE '%%surrogate%%'") ==
				     1,
			     SETTLED_MS));
}

/* Each would take 500 bytes of memory for two of the answer. */
Test(fill, an_answer_has_no_more_tiny_events_than_a_message)
{
	char *list = malloc(18100), *at = list;

	for (int i = 0; i < 9000; i++)
		at += sprintf(at, i ? ",0" : "0");
	answer("/missing/a/2/4", 200,
	       suite_text("{\"list\":[{\"l\":[%s],\"p\":1},{\"l\":[%s],\"p\":2},{\"l\":[%s],\"p\":3}]}", list, list,
			  list));
	START(URL GAP FILL("") "\"rules\": [{\"when\": {\"/p\": {\"exists\": true}}, \"action\": \"event\", "
			       "\"explode\": \"/l/*\", \"id\": [[\"^/p\", \"@\"]]}, " EVENT "}]",
	      feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(5);
	await(stored("source LIKE '%%#fill'") == 18000, SETTLED_MS);
	await(listener_metric(listener, "wsonce_fill_calls_total") >= 2, SETTLED_MS);
	cr_assert_eq(stored("source LIKE '%%#fill'"), 18000);
}

Test(fill, an_answer_repeats_no_more_than_a_message)
{
	char *list = malloc(200000), *at = list;

	at += sprintf(at, "{\"list\":[{\"v\":\"%060000d\"}", 7);
	for (int i = 0; i < 5000; i++)
		at += sprintf(at, ",{\"p\":%d}", i);
	sprintf(at, "]}");
	answer("/missing/a/2/4", 200, list);
	START(URL GAP FILL("") "\"rules\": [{\"when\": {\"/v\": {\"exists\": true}}, \"capture\": {\"v\": \"/v\"}}, "
			       "{\"when\": {\"/p\": {\"exists\": true}}, \"action\": \"event\", \"id\": [[\"/p\"]], "
			       "\"type\": \"$v\"}, " EVENT "}]",
	      feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(5);
	await(bench_count("dead_letters WHERE reason LIKE '%%what each repeats'") > 4000, SETTLED_MS);
	cr_assert_lt(stored("source LIKE '%%#fill'"), 1000);
}

Test(fill, a_refusal_that_quotes_the_token_is_logged_without_it)
{
	answer("/missing/a/2/2", 403, "no rights for planted-later, planted-token");
	START(URL GAP "\"fill\": {\"events\": \"\", \"http\": {\"url\": \"http://127.0.0.1:%d/missing/a/2/2\", "
		      "\"headers\": {\"Authorization\": \"Bearer ${file:%s}\"}}}, " RULES,
	      feed_port(feed), feed_port(feed), suite_file("token", "planted-token"));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	suite_file("token", "planted-later");
	send_number(1);
	send_number(3);
	cr_assert(wait_until(listener_has_logged(listener, "answered 403: no rights for"), SETTLED_MS), "%s",
		  process_errors(listener_process(listener)));
	cr_assert_not(listener_has_logged(listener, "planted-"));
}

/* Six such answers keep all holes of the source waiting for six hours. */
Test(fill, a_long_wait_that_a_source_asks_for_is_told)
{
	feed_answer(feed, "/missing/", "HTTP/1.1 429 X\r\nRetry-After: 3600\r\nContent-Length: 4\r\n\r\nbusy");
	START(URL GAP FILL("") RULES, feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	send_number(1);
	send_number(3);
	cr_assert(wait_until(listener_has_logged(listener, "wait_s=3600 reason=\"answered 429: busy\""), SETTLED_MS),
		  "%s", process_errors(listener_process(listener)));
}

/* Starts one of a fleet. */
static struct listener *start_one(void)
{
	const char *config = suite_file(
		"sources.json", suite_text("{\"sources\": [{\"name\": \"played\", " URL GAP FILL("") RULES "}]}",
					   feed_port(feed), feed_port(feed)));

	return listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .without_waiting = true},
		"--config %s", config);
}

/* As after an outage: a listener becomes the leader that has left a hole to another for long. */
Test(fill, a_hole_that_was_left_to_the_leader_holds_up_no_younger_one)
{
	struct listener *other;

	bench_open();
	listener = start_one();
	other = start_one();
	cr_assert(feed_wait_clients(feed, 2, SETTLED_MS));
	answer("/missing/a/2/2", 404, "none");
	send_number(1);
	send_number(3);
	await(is_counted("wsonce_fill_calls_total", 1) || listener_metric(other, "wsonce_fill_calls_total") == 1,
	      SETTLED_MS);
	if (!is_counted("wsonce_fill_calls_total", 1)) {
		struct listener *leader = other;

		other = listener;
		listener = leader;
	}
	wait_pause_ms(5000); /* the other one has left it twice, and looks again 8 s later */
	cr_assert_eq(listener_stop(listener), 0);
	listener_free(listener);
	listener = other;
	answer("/missing/a/4/4", 200, "{\"list\":[{\"id\":\"e-4\",\"of\":\"a\",\"n\":4}]}");
	send_number(5);
	await(stored("true") == 4, 5000);
}

/* Only who hears the feed leads. */
static bool is_filled_meanwhile(void)
{
	static int next = 4;

	send_number(next++);
	return stored("source = 'played#fill'") == 1;
}

/* After the hole, five listeners start. One of them probably becomes the leader, and it does not know of the hole. */
Test(fill, a_hole_is_not_left_to_a_leader_that_started_later)
{
	answer("/missing/a/2/2", 200, "{\"list\":[{\"id\":\"e-2\",\"of\":\"a\",\"n\":2}]}");
	bench_open();
	listener = start_one();
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	await(is_counted("wsonce_redis_up", 1), SETTLED_MS);
	send_number(1);
	send_number(3);
	for (int i = 0; i < NEWCOMERS; i++)
		start_one();
	await(is_filled_meanwhile(), SETTLED_MS);
}

static struct listener *start_with_port(const char *name, int port)
{
	char *sources = suite_text("%s", "");

	for (int i = 0; i < SOURCES; i++)
		sources = suite_text("%s%s{\"name\": \"s%d\", " URL GAP FILL("") RULES "}", sources, i ? ", " : "", i,
				     feed_port(feed), port);
	return listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .without_waiting = true},
		"--config %s", suite_file(name, suite_text("{\"sources\": [%s]}", sources)));
}

static bool are_filled_meanwhile(void)
{
	static int next = 4;
	int n = 0;

	send_number(next++);
	for (int i = 0; i < SOURCES; i++)
		n += is_counted(suite_text("wsonce_feed_filled_total{source=\"s%d\"}", i), 1);
	return n == SOURCES;
}

/* As if a firewall let one host reach the feed, but not its HTTP interface. It probably leads some of the sources. */
Test(fill, a_leader_whose_calls_fail_leaves_the_hole_to_another)
{
	struct listener *other;

	bench_open();
	listener = start_with_port("good.json", feed_port(feed));
	other = start_with_port("bad.json", port_reserve());
	cr_assert(feed_wait_clients(feed, 2 * SOURCES, SETTLED_MS));
	listener_wait_ready(listener);
	listener_wait_ready(other);
	wait_pause_ms(3000); /* until each knows of the other */
	answer("/missing/a/2/2", 200, "{\"list\":[{\"id\":\"e-2\",\"of\":\"a\",\"n\":2}]}");
	send_number(1);
	send_number(3);
	await(are_filled_meanwhile(), SETTLED_MS);
	listener_free(other);
}

/* A feed whose numbers jump, and one that has too much to say. */
Test(fill, holes_without_end_are_given_up_in_one_line)
{
	answer("/missing/", 404, "none");
	START(URL GAP FILL("") RULES, feed_port(feed), feed_port(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	for (int n = 1; n <= 600; n++)
		send_number(n * 1000000);
	await(is_counted("wsonce_fills_failed_total", 599), 2 * SETTLED_MS, "%.3f",
	      listener_metric(listener, "wsonce_fills_failed_total"));
	cr_assert_eq(listener_count_logged(listener, "cannot fetch all events that a source did not send"), 1);
	cr_assert(listener_has_logged(listener, "too many holes wait"));
	cr_assert_eq(stored("true"), 600);
}

static bool reads(int i)
{
	return listener_page_has(
		fleet.listeners[i], "/metrics",
		suite_text("source_up{source=\"played\",url=\"ws://127.0.0.1:%d/***\"} 1\n", feed_port(feed)));
}

/* Sends the next number. A reader leaves a source only to one that hears it. */
static bool is_left_to(int i)
{
	send_number(++sent);
	return reads(i) && !reads(!i);
}

/* Starts two listeners, of which one reads. Returns which. */
static int start_readers(const char *config)
{
	fleet_launch(&fleet, 2, NULL, NULL, suite_text("--readers 1 --config %s", config));
	listener_wait_ready(fleet.listeners[0]);
	listener_wait_ready(fleet.listeners[1]);
	wait_pause_ms(7000); /* by then they know each other */
	await(is_left_to(0) || is_left_to(1), LEFT_MS);
	return reads(1);
}

/* Numbers that another reader had meanwhile are not missing. */
Test(fill, a_reader_whose_turn_it_is_again_misses_nothing)
{
	const char *config =
		suite_file("readers.json",
			   suite_text("{\"sources\": [{\"name\": \"played\", " URL GAP RULES "}]}", feed_port(feed)));
	int first = start_readers(config);

	for (int turn = 0; turn < 2; turn++) {
		listener_kill(fleet.listeners[first]);
		await(is_left_to(!first), LEFT_MS);
		fleet_launch_one(&fleet, first);
		await(is_left_to(first), LEFT_MS);
	}
	cr_assert_eq(listener_metric(fleet.listeners[!first], "wsonce_feed_missing_total{source=\"played\"}"), 0);
	fleet_end(&fleet);
}

/* Sends the next number, and returns true if this listener is ready. */
static bool is_fit(int i)
{
	send_number(++sent);
	return listener_page_has(fleet.listeners[i], "/readyz", "ready\n");
}

Test(fill, a_reader_that_has_stopped_may_be_one_again_when_its_wait_is_over)
{
	const char *config =
		suite_file("readers.json",
			   suite_text("{\"sources\": [{\"name\": \"played\", \"backoff\": {\"max_ms\": 2000}, " URL
				      "\"rules\": [{\"when\": {\"/no\": 1}, \"action\": \"fatal\"}, " EVENT "}]}]}",
				      feed_port(feed)));
	int first = start_readers(config);

	for (int i = 0; i < 2; i++) {
		feed_send_text(feed, "{\"no\":1}");
		await(i ? !reads(!first) : is_left_to(!first), LEFT_MS);
	}
	listener_kill(fleet.listeners[first]);
	fleet_launch_one(&fleet, first);
	await(is_left_to(first), LEFT_MS);
	await(is_fit(!first), LEFT_MS);
	fleet_end(&fleet);
}
