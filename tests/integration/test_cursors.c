/* A stored cursor never covers an event that is not stored, whenever the listener is killed. */
#include "support.h"
#include "bench.h"
#include "cursor_order.h"
#include "put_cursors.sql.h"

#define SETTLED_MS 15000

static struct feed *feed;
static struct listener *dialled;

#define RESUME "feed?cursor="

/* Events are {"n": 1}, {"n": 2} and so on; n is the id, and the cursor is at this pointer. more are further keys of the
 * cursor. host is how the feed's host is written; flags are further ones. */
static struct listener *start_at(const char *host, const char *pointer, const char *more, const char *flags,
				 bool without_waiting)
{
	const char *url = suite_text("ws://${host}:%d/feed", feed_port(feed));
	char *config = suite_file(
		suite_text("cursors%d.json", suite_number()),
		suite_text(
			"{\"sources\": [{\"name\": \"numbers\", \"vars\": {\"host\": \"%s\"}, \"url\": \"%s\", "
			"\"url_resume\": \"%s?cursor=${cursor}\", \"max_message_bytes\": 1000, \"cursor\": {\"kind\": "
			"\"max\"%s}, \"rules\": [{\"when\": {\"/n\": {\"exists\": true}}, \"action\": \"event\", "
			"\"id\": "
			"[[\"/n\"]], \"cursor\": \"%s\"}, {\"when\": {\"/anew\": 1}, \"clear\": [\"cursor\"]}]}]}",
			host, url, url, more, pointer));

	return listener_start(
		&(struct listener_options){.database = db, .without_ingest = true, .without_waiting = without_waiting},
		"--config %s %s", config, flags);
}

static void start_with(const char *pointer, const char *more, bool without_waiting)
{
	dialled = start_at("127.0.0.1", pointer, more, "", without_waiting);
}

static void start(void)
{
	start_with("/n", "", false);
}

static void set_up(void)
{
	feed = feed_new();
	db = database_new();
	start();
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "%s", process_last_words(listener_process(dialled)));
}

static void tear_down(void)
{
	listener_free(dialled);
	feed_free(feed);
	database_free(db);
}

TestSuite(cursors, .init = set_up, .fini = tear_down, .timeout = 180);

static void send_numbers(int first, int last)
{
	for (int n = first; n <= last; n++)
		feed_sendf(feed, "{\"n\":%d}", n);
}

static long stored(int first, long last)
{
	return bench_count("events WHERE event_id::int BETWEEN %d AND %ld", first, last);
}

/* Returns the stored cursor; 0 if there is none. */
static long cursor(void)
{
	return database_long(
		db, "SELECT coalesce(max(nullif(value, 'null')::bigint), 0) FROM cursors WHERE source = 'numbers'");
}

Test(cursors, cursor_follows_what_is_stored_and_is_last_told_at_the_end)
{
	send_numbers(1, 500);
	await(cursor() == 500, SETTLED_MS);
	cr_assert_eq(stored(1, 500), 500);
	send_numbers(501, 600);
	await(stored(501, 600) == 100, SETTLED_MS);
	cr_assert_eq(listener_stop(dialled), 0);
	cr_assert_eq(cursor(), 600);
}

Test(cursors, cursor_stands_before_an_event_that_cannot_be_stored)
{
	struct database *holder = database_open(database_conninfo(db));

	send_numbers(1, 4);
	await(cursor() == 4, SETTLED_MS);
	database_exec(holder, "BEGIN");
	database_exec(holder, "INSERT INTO events (event_id, event_type, payload) VALUES ('5', '', '{}')");
	send_numbers(5, 20);
	await(stored(6, 20) == 15, SETTLED_MS);
	wait_pause_ms(2500);
	cr_assert_eq(cursor(), 4);
	send_numbers(21, 21);
	await(stored(21, 21) == 1, SETTLED_MS);
	listener_kill(dialled);
	cr_assert_eq(cursor(), 4);
	database_free(holder);
}

/* Killed at a random moment of a burst: within a batch, between its commit and the cursor's statement, or before
 * both. */
static bool waits_for_its_cursor(void)
{
	int status;
	const char *body = listener_http(dialled, "/readyz", &status);

	return body && status == 503 && strstr(body, "cursor has not been read yet");
}

/* A right that is taken away is noticed by a new connection only. */
Test(cursors, cursor_that_cannot_be_stored_is_told)
{
	send_numbers(1, 1);
	await(cursor() == 1, SETTLED_MS);
	database_exec(db, "ALTER TABLE cursors ADD CONSTRAINT no CHECK (false) NOT VALID");
	send_numbers(2, 2);
	await(listener_page_has(dialled, "/readyz", "degraded: cursors cannot be stored"), SETTLED_MS);
	cr_assert_eq(stored(1, 2), 2);
	database_exec(db, "ALTER TABLE cursors DROP CONSTRAINT no");
	await(listener_page_has(dialled, "/readyz", "ready\n"), SETTLED_MS);
	cr_assert_eq(cursor(), 2);
}

Test(cursors, source_is_not_ready_before_its_cursor_is_read)
{
	struct database *lock = database_open(database_conninfo(db));

	listener_free(dialled);
	database_exec(lock, "BEGIN; LOCK TABLE cursors");
	start_with("/n", "", true);
	await(waits_for_its_cursor(), SETTLED_MS);
	database_exec(lock, "COMMIT");
	database_free(lock);
	listener_wait_ready(dialled);
}

Test(cursors, listener_that_is_killed_leaves_no_cursor_ahead_of_its_rows)
{
	int first = 1, ahead = 0;
	unsigned int seed = 7;
	long at = 0;

	for (int round = 0; round < 8; round++) {
		for (int burst = 0; burst < 40; burst++) {
			send_numbers(first + burst * 50, first + burst * 50 + 49);
			wait_pause_ms((int)(rand_r(&seed) % 60));
			if (cursor() > at && burst > 5 && rand_r(&seed) % 8 == 0)
				break;
		}
		listener_kill(dialled);
		listener_free(dialled);
		at = cursor();
		ahead += at >= first && stored(first, at) != at - first + 1;
		first += 2000;
		start();
		await(feed_connections(feed) == round + 2, SETTLED_MS);
		await(feed_clients(feed) == 1, SETTLED_MS);
	}
	cr_assert_gt(at, 2000, "no cursor was written");
	cr_assert_eq(ahead, 0);
}

/* Its dead letter counts as much as the row of another event. */
Test(cursors, cursor_stands_before_a_frame_that_is_too_long_and_has_no_letter_yet)
{
	database_exec(db, "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no letters''; END'");
	database_exec(db, "CREATE TRIGGER no BEFORE INSERT ON dead_letters FOR EACH ROW EXECUTE FUNCTION no()");
	send_numbers(1, 4);
	await(cursor() == 4, SETTLED_MS);
	feed_sendf(feed, "{\"n\":5,\"text\":\"%01000d\"}", 0);
	send_numbers(6, 9);
	await(stored(6, 9) == 4, SETTLED_MS);
	cr_assert_neq(listener_stop(dialled), 0, "a letter was left");
	cr_assert_eq(cursor(), 4);
}

Test(cursors, source_that_counts_anew_takes_back_what_is_stored)
{
	send_numbers(100, 104);
	await(cursor() == 104, SETTLED_MS);
	feed_send_text(feed, "{\"anew\":1}");
	await(cursor() == 0, SETTLED_MS);
	send_numbers(1, 3);
	await(cursor() == 3, SETTLED_MS);
	send_numbers(4, 4);
	await(cursor() == 4, SETTLED_MS);
}

/* The first connection resumes from the old profile's cursor, which new ones then replace. */
Test(cursors, profile_that_reads_the_cursor_elsewhere_takes_the_place_of_larger_ones)
{
	send_numbers(1000, 1000);
	await(cursor() == 1000, SETTLED_MS);
	cr_assert_eq(listener_stop(dialled), 0);
	listener_free(dialled);
	start_with("/k", "", false);
	await(feed_connections(feed) == 2, SETTLED_MS);
	cr_assert(strstr(feed_request(feed), RESUME "1000"));
	feed_send_text(feed, "{\"n\":1001,\"k\":5}");
	await(cursor() == 5, SETTLED_MS);
	feed_send_text(feed, "{\"n\":1002,\"k\":4}");
	feed_send_text(feed, "{\"n\":1003,\"k\":6}");
	await(cursor() == 6, SETTLED_MS);
}

/* Events that a connection brings before its hold ends may stand before others that are missing. */
Test(cursors, cursor_is_held_on_each_connection_until_its_stored_events_have_come)
{
	cr_assert_eq(listener_stop(dialled), 0);
	listener_free(dialled);
	start_with("/n", ", \"hold_until\": {\"/live\": 1}", false);
	await(feed_clients(feed) == 1, SETTLED_MS);
	send_numbers(1, 3);
	feed_send_text(feed, "{\"live\":1}");
	await(cursor() == 3, SETTLED_MS);
	for (int connection = 3; connection <= 4; connection++) {
		feed_drop_all(feed);
		await(feed_connections(feed) == connection && feed_clients(feed) == 1, SETTLED_MS);
		cr_assert(strstr(feed_request(feed), RESUME "3"));
		send_numbers(3 * connection, 3 * connection + 2);
		await(stored(3 * connection, 3 * connection + 2) == 3, SETTLED_MS);
	}
	cr_assert_eq(listener_stop(dialled), 0);
	cr_assert_eq(cursor(), 3);
}

/* The stored events may be one message, which would be even longer after the next connection. */
Test(cursors, message_that_is_too_long_ends_the_hold)
{
	cr_assert_eq(listener_stop(dialled), 0);
	listener_free(dialled);
	start_with("/n", ", \"hold_until\": {\"/live\": 1}", false);
	await(feed_clients(feed) == 1, SETTLED_MS);
	send_numbers(1, 3);
	feed_sendf(feed, "{\"live\":1,\"text\":\"%01000d\"}", 0);
	send_numbers(4, 6);
	await(cursor() == 6, SETTLED_MS);
}

static void expect_a_beginning_without_cursor(const char *words)
{
	await(feed_clients(feed) == 1 && !strstr(feed_request(feed), "cursor"), SETTLED_MS, "%s",
	      process_last_words(listener_process(dialled)));
	cr_assert(listener_has_logged(dialled, "source refused the cursor"));
	cr_assert(listener_has_logged(dialled, words));
	cr_assert(listener_has_logged(dialled, "from=20"));
	await(cursor() == 0, SETTLED_MS);
	send_numbers(2, 2);
	await(cursor() == 2, SETTLED_MS);
}

Test(cursors, cursor_that_the_handshake_refuses_is_dropped)
{
	send_numbers(9, 9);
	await(cursor() == 9, SETTLED_MS);
	feed_answer(feed, "/" RESUME,
		    "HTTP/1.1 400 Bad Request\r\nContent-Length: 24\r\n\r\n{\"error\":\"CursorTooOld\"}");
	feed_drop_all(feed);
	expect_a_beginning_without_cursor("CursorTooOld");
}

static void expect_the_cursor_after(const char *answer, const char *words)
{
	send_numbers(9, 9);
	cr_assert(wait_until(cursor() == 9, SETTLED_MS));
	feed_answer(feed, "/" RESUME, answer);
	feed_drop_all(feed);
	cr_assert(wait_until(listener_has_logged(dialled, words), SETTLED_MS));
	feed_answer(feed, "/none", NULL);
	cr_assert(wait_until(feed_clients(feed) == 1, SETTLED_MS));
	cr_assert(strstr(feed_request(feed), RESUME "9"));
	cr_assert_not(listener_has_logged(dialled, "source refused the cursor"));
	cr_assert_eq(cursor(), 9);
}

Test(cursors, cursor_is_kept_if_the_answer_to_an_expired_token_quotes_it)
{
	expect_the_cursor_after("HTTP/1.1 401 Unauthorized\r\nContent-Length: 34\r\n\r\n"
				"{\"error\":\"token\",\"q\":{\"cursor\":9}}",
				"answered 401");
}

Test(cursors, cursor_is_kept_if_an_answer_quotes_the_encoded_url)
{
	expect_the_cursor_after("HTTP/1.1 404 Not Found\r\nContent-Length: 20\r\n\r\n/login?to=cursor%3D9",
				"answered 404");
}

Test(cursors, cursor_that_is_gone_is_dropped_without_words)
{
	send_numbers(9, 9);
	await(cursor() == 9, SETTLED_MS);
	feed_answer(feed, "/" RESUME, "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n");
	feed_drop_all(feed);
	expect_a_beginning_without_cursor("answered 410");
}

Test(cursors, cursor_that_a_message_refuses_is_dropped)
{
	send_numbers(9, 9);
	await(cursor() == 9, SETTLED_MS);
	feed_drop_all(feed);
	await(feed_connections(feed) == 2, SETTLED_MS);
	cr_assert(strstr(feed_request(feed), RESUME "9"));
	feed_send_text(feed, "{\"error\":\"FutureCursor\",\"message\":\"Cursor in the future.\"}");
	feed_close_all(feed, 1008);
	expect_a_beginning_without_cursor("FutureCursor");
}

/* The feed behaves the same until the listener tries a connection without the cursor. */
static void hang_up_on_cursors(const char *answer)
{
	send_numbers(9, 9);
	cr_assert(wait_until(cursor() == 9, SETTLED_MS));
	feed_answer(feed, "/" RESUME, answer);
	feed_drop_all(feed);
	cr_assert(wait_until(feed_clients(feed) == 1 && !strstr(feed_request(feed), "cursor"), 3 * SETTLED_MS), "%s",
		  process_last_words(listener_process(dialled)));
}

Test(cursors, cursor_that_is_refused_without_a_word_is_dropped_with_the_first_event_without_it)
{
	hang_up_on_cursors(NULL);
	cr_assert_not(listener_has_logged(dialled, "source refused the cursor"));
	send_numbers(2, 3);
	cr_assert(wait_until(cursor() == 3, SETTLED_MS));
	cr_assert(listener_has_logged(dialled, "source refused the cursor"));
	cr_assert(listener_has_logged(dialled, "cursor=9"));
}

Test(cursors, cursor_is_kept_while_a_feed_closes_every_connection)
{
	hang_up_on_cursors("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
	feed_answer(feed, "/none", NULL);
	feed_drop_all(feed);
	cr_assert(wait_until(feed_clients(feed) == 1 && strstr(feed_request(feed), RESUME "9"), 3 * SETTLED_MS));
	cr_assert_not(listener_has_logged(dialled, "source refused the cursor"));
	cr_assert_eq(cursor(), 9);
	send_numbers(10, 10);
	cr_assert(wait_until(cursor() == 10, SETTLED_MS));
}

/* --- whose it is --- */

static void stop(void)
{
	cr_assert_eq(listener_stop(dialled), 0);
	listener_free(dialled);
}

/* Another fleet may have been stopped for a while. */
Test(cursors, cursor_of_one_consumer_is_not_that_of_another)
{
	stop();
	struct listener *first = start_at("127.0.0.1", "/n", "", "--consumer first", false);
	dialled = start_at("127.0.0.1", "/n", "", "--consumer second", false);
	await(feed_clients(feed) == 2, SETTLED_MS);
	send_numbers(1, 4);
	await(bench_count("processed_events") == 8, SETTLED_MS);
	stop();
	send_numbers(5, 9);
	await(cursor() == 9, SETTLED_MS);
	dialled = start_at("127.0.0.1", "/n", "", "--consumer second", false);
	await(feed_clients(feed) == 2, SETTLED_MS);
	cr_assert(strstr(feed_request(feed), RESUME "4"), "%s", feed_request(feed));
	listener_free(first);
}

/* The numbers of another host mean something else, and may be less. */
Test(cursors, cursor_of_one_host_is_not_that_of_another)
{
	const char *scope = ", \"scope\": \"host\"";

	stop();
	dialled = start_at("127.0.0.1", "/n", scope, "", false);
	await(feed_clients(feed) == 1, SETTLED_MS);
	send_numbers(1000, 1000);
	await(cursor() == 1000, SETTLED_MS);
	stop();
	dialled = start_at("localhost", "/n", scope, "", false);
	await(feed_clients(feed) == 1 && !strstr(feed_request(feed), RESUME), SETTLED_MS, "%s", feed_request(feed));
	send_numbers(5, 5);
	await(stored(5, 5) == 1, SETTLED_MS);
	stop();
	dialled = start_at("localhost", "/n", scope, "", false);
	await(feed_clients(feed) == 1 && strstr(feed_request(feed), RESUME "5"), SETTLED_MS, "%s", feed_request(feed));
}

/* --- which is larger --- */

/* Stores the cursors of "given" with this order, one for each source. */
static void put_all(const char *order)
{
	database_exec(db,
		      "DO $$ DECLARE put record; BEGIN EXECUTE (SELECT format('EXECUTE put(%%L, %%L, %%L, %%L, %%L, "
		      "%%L, %%L)', array_agg(source), array_agg(''::text), array_agg('max/n'::text), array_agg(%s), "
		      "array_agg(NULL::text), (SELECT epoch FROM wsonce_epoch WHERE xmin = home), 'i') FROM given) "
		      "INTO put; END $$",
		      order);
}

Test(cursors, larger_cursor_replaces_a_smaller_one)
{
	database_exec(db, "CREATE TEMPORARY TABLE given (source text, old text, new text, is_beyond boolean)");
	for (size_t i = 0; i < CURSORS_IN_ORDER; i++)
		for (size_t j = 0; j < CURSORS_IN_ORDER; j++)
			database_exec(db, "INSERT INTO given VALUES ('%zu-%zu', $$%s$$, $$%s$$, %d::boolean)", i, j,
				      cursor_in_order(i), cursor_in_order(j), cursor_is_beyond(i, j));
	database_exec(db, "PREPARE put AS %s", database_sql(SQL_PUT_CURSORS));
	put_all("old");
	put_all("new");
	cr_assert_eq(bench_count("given JOIN cursors USING (source)"), (long)(CURSORS_IN_ORDER * CURSORS_IN_ORDER));
	cr_assert_null(database_text(db, "SELECT string_agg(new || ' after ' || old || ': ' || value, ', ') FROM given "
					 "JOIN cursors USING (source) WHERE value <> CASE WHEN is_beyond THEN new ELSE "
					 "old END"));
}
