/* wsonce lines: what listeners of one feed record about it, and what the command prints about such rows. */
#include "support.h"
#include "bench.h"
#include "checkin.sql.h"

#define SETTLED_MS 20000
#define EVENTS     200

static json_t *told;
static struct listener *fleet[3];

/* Other URLs of one feed, so that what its lines hear can differ. */
static struct feed *mirrors[3];

/* Since 1970: that of the first row which add_row() adds, so that a test may run into the next one. */
static long this_minute;

/* Leaves time until the next minute, in which the listeners would have rows, too. */
static void wait_for_a_minute(void)
{
	await(time(NULL) % 60 < 50, SETTLED_MS);
}

static void start_fleet(const char *redis)
{
	struct listener_options options = {.redis = redis, .without_waiting = true};

	wait_for_a_minute();
	bench_open();
	options.database = db;
	for (int i = 0; i < 3; i++) {
		mirrors[i] = feed_new();
		fleet[i] = listener_start(&options, "--source feed=%s --instance-id line-%d", feed_url(mirrors[i]), i);
	}
	for (int i = 0; i < 3; i++)
		listener_wait_ready(fleet[i]);
	for (int i = 0; i < 3; i++)
		cr_assert(feed_wait_clients(mirrors[i], 1, SETTLED_MS));
}

/* True if each line has settled its copies, except those that it lost. */
static bool have_settled(const int *lost)
{
	for (int i = 0; i < 3; i++)
		if (listener_metric(fleet[i], "wsonce_persisted_total") +
			    listener_metric(fleet[i], "wsonce_duplicates_total") <
		    EVENTS - lost[i])
			return false;
	return true;
}

/* Line i loses the first lost[i] events of every third. */
static void send_events(const int lost[3])
{
	for (int n = 0; n < EVENTS; n++)
		for (int i = 0; i < 3; i++)
			if (n % 3 != i || n / 3 >= lost[i])
				feed_sendf(mirrors[i], "{\"event_id\":\"e-%d\"}", n);
	await(have_settled(lost), SETTLED_MS);
}

static void stop(int from)
{
	for (int i = from; i < 3; i++)
		cr_assert_eq(listener_stop(fleet[i]), 0);
}

/* Runs wsonce lines about the minutes that were recorded, as if they were whole and over. Returns its exit status. */
static int ask(const char *flags)
{
	database_exec(db, "UPDATE line_minutes SET minute = minute - interval '10 minutes', up = '{0,60000}'");
	char *until =
		database_text(db, "SELECT to_char(max(minute) + interval '1 minute', 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') "
				  "FROM line_minutes");
	char *command = suite_text("lines --json --until %s %s", until, flags);
	struct run run = run_on(db, "%s", command);
	json_decref(told);
	told = json_loads(run.output, 0, NULL);
	cr_assert_not_null(told, "%s%s", run.output, run.errors);
	return run.status;
}

/* The third line missed one of 200, which one is not known. */
Test(lines, explain_says_which_lines_had_an_event, .timeout = 120)
{
	start_fleet(NULL);
	send_events((const int[]){0, 0, 1});
	stop(0);
	database_exec(db, "UPDATE line_minutes SET minute = '2026-01-01T00:00Z'; "
			  "UPDATE events SET received_at = '2026-01-01T00:00:30Z', processed_at = '2026-01-01T00:01Z'; "
			  "UPDATE events SET purged_at = now() WHERE event_id = 'e-7'");
	struct run run = run_on(db, "explain e-2");
	cr_expect(strstr(run.output, "  copy on a line      line=line-0 received=200 of=200\n"), "%s", run.output);
	cr_expect(strstr(run.output, "  copy on a line      line=line-1 received=200 of=200\n"), "%s", run.output);
	cr_expect(strstr(run.output, "  copy on a line?     line=line-2 received=199 of=200\n"), "%s", run.output);
	database_exec(db, "UPDATE line_minutes SET minutes = 5 WHERE listener LIKE 'line-1.%%'; "
			  "UPDATE events SET received_at = '2026-01-01T00:04:30Z'");
	run = run_on(db, "explain e-2");
	cr_expect(strstr(run.output, "  copy on a line      line=line-0 received=200 of=200\n"), "%s", run.output);
	database_exec(db, "DELETE FROM events WHERE event_id = 'e-0'");
	run = run_on(db, "explain e-2");
	cr_expect(!strstr(run.output, "  copy on a line "), "not all that was stored is there: %s", run.output);
	database_exec(db, "UPDATE line_minutes SET received = 0, received_sum = 0 WHERE listener LIKE 'line-2.%%'");
	run = run_on(db, "explain e-2");
	cr_expect(strstr(run.output, "  no copy on a line   line=line-2 received=0 of=200\n"), "%s", run.output);
}

static double share(const char *state)
{
	return json_number_value(json_object_get(json_array_get(json_object_get(told, "sources"), 0), state));
}

static long sum(const char *columns)
{
	return database_long(db, "SELECT coalesce(sum(%s), 0)::bigint FROM line_minutes", columns);
}

Test(lines, three_that_hear_the_same_are_verified)
{
	start_fleet(NULL);
	send_events((const int[]){0, 0, 0});
	stop(0);
	cr_assert_eq(sum("received"), 3 * EVENTS);
	cr_assert_eq(sum("stored"), EVENTS);
	cr_assert_eq(sum("unknown"), 0);
	cr_assert_eq(database_long(db,
				   "SELECT count(DISTINCT received_sum) FROM (SELECT sum(received_sum) AS received_sum "
				   "FROM line_minutes GROUP BY listener) AS s"),
		     1);
	cr_assert_eq(ask(""), 0);
	cr_assert_float_eq(share("verified"), 1, 1e-9);
	cr_assert_eq(bench_count("line_minutes WHERE received > 0 AND abs(behind_p99) > 5000 OR "
				 "(behind_p50 IS NULL) <> (received = 0)"),
		     0);
	/* One event less on one line. */
	database_exec(db,
		      "UPDATE line_minutes SET received = received - 1, received_sum = received_sum - 7 WHERE listener "
		      "LIKE 'line-1.%%' AND received > 0");
	cr_assert_eq(ask(""), 1);
	cr_assert_gt(share("differing"), 0);
	cr_assert_eq(ask("--source other"), 2, "nothing is known of it");
}

/* What one consumer has processed says nothing about another one. */
Test(lines, each_consumer_has_lines_of_its_own, .init = bench_open)
{
	struct listener_options options = {.database = db, .without_waiting = true};

	wait_for_a_minute();
	for (int i = 0; i < 3; i++) {
		mirrors[i] = feed_new();
		fleet[i] = listener_start(&options, "--source feed=%s --instance-id line-%d %s", feed_url(mirrors[i]),
					  i, i ? "--consumer billing" : "");
	}
	for (int i = 0; i < 3; i++)
		listener_wait_ready(fleet[i]);
	for (int i = 0; i < 3; i++)
		cr_assert(feed_wait_clients(mirrors[i], 1, SETTLED_MS));
	send_events((const int[]){0, 0, 0});
	stop(0);
	cr_assert_eq(ask("--source consumer:billing:feed"), 0);
	cr_assert_float_eq(share("verified"), 1, 1e-9);
	cr_assert_eq(ask(""), 0, "the other one has one line, which has everything");
	cr_assert_eq(json_array_size(json_object_get(told, "sources")), 2);
	database_exec(db, "UPDATE line_minutes SET minute = '2026-01-01T00:00Z'; UPDATE events SET received_at = "
			  "'2026-01-01T00:00:30Z', processed_at = '2026-01-01T00:01Z'");
	run_expect(db, 0, "  copy on a line      line=line-2 received=200 of=200\n", "explain e-2");
}

/* The others stored what a line lost. */
Test(lines, losses_of_single_lines_are_told_to_the_event)
{
	static const int lost[] = {5, 0, 11};
	const json_t *minute, *line;
	long missing[3] = {0};
	size_t i, k;

	start_fleet(NULL);
	send_events(lost);
	stop(0);
	cr_assert_eq(sum("stored"), EVENTS);
	cr_assert_eq(ask(""), 1);
	json_array_foreach(json_object_get(json_array_get(json_object_get(told, "sources"), 0), "minutes"), i, minute)
		json_array_foreach(json_object_get(minute, "lines"), k, line) missing[k] +=
		(long)json_integer_value(json_object_get(line, "missing"));
	for (k = 0; k < 3; k++)
		cr_assert_eq(missing[k], lost[k], "line %zu", k);
}

/* --- two lines of one listener: a profile with a mirror --- */

/* For each listener a feed, and its mirror. */
static struct feed *endpoints[2][2];
static struct listener *pair[2];
static int sent;

/* url or mirror may be NULL: nobody listens there. */
static void start_pair(int i, const char *url, const char *mirror)
{
	struct listener_options options = {.database = db, .without_waiting = true};
	const char *dead = "ws://127.0.0.1:1/";
	char *profile = suite_file(
		suite_text("sources-%d.json", i),
		suite_text("{\"sources\": [{\"name\": \"feed\", \"url\": \"%s\", \"mirrors\": [\"%s\"], \"lines\": 2, "
			   "\"rules\": [{\"when\": {\"/event_id\": {\"exists\": true}}, \"action\": \"event\", \"id\": "
			   "[[\"/event_id\"]]}]}]}",
			   url ? url : dead, mirror ? mirror : dead));

	pair[i] = listener_start(&options, "--config %s --instance-id pair-%d", profile, i);
}

static void open_endpoints(int i)
{
	for (int k = 0; k < 2; k++)
		endpoints[i][k] = feed_new();
	start_pair(i, feed_url(endpoints[i][0]), feed_url(endpoints[i][1]));
	listener_wait_ready(pair[i]);
	for (int k = 0; k < 2; k++)
		cr_assert(feed_wait_clients(endpoints[i][k], 1, SETTLED_MS));
}

/* An event on all endpoints, but not on the mirrors if it has no copy. */
static void send_to_pairs(int listeners, bool has_copy)
{
	for (int i = 0; i < listeners; i++)
		for (int k = 0; k < 1 + has_copy; k++)
			feed_sendf(endpoints[i][k], "{\"event_id\":\"p-%d\"}", sent);
	sent++;
}

static long sum_of(const char *column, const char *instance)
{
	return database_long(db,
			     "SELECT coalesce(sum(coalesce(%s, 0)) %% 1000000007, -1)::bigint FROM line_minutes WHERE "
			     "left(listener, -17) = '%s'",
			     column, instance);
}

#define SEND_UNTIL(listeners, expr) \
	({ \
		int64_t send_end = wait_now_ms() + 3 * SETTLED_MS; \
		do \
			send_to_pairs(listeners, true); \
		while (!wait_until(expr, 50) && wait_now_ms() < send_end); \
		(expr); \
	})

Test(lines, two_mirrors_of_one_listener_are_two_lines, .init = bench_open)
{
	open_endpoints(0);
	for (int n = 0; n < EVENTS; n++)
		send_to_pairs(1, n % 20);
	await(listener_metric(pair[0], "wsonce_persisted_total") +
			      listener_metric(pair[0], "wsonce_duplicates_total") ==
		      EVENTS + EVENTS / 20 * 19,
	      SETTLED_MS);
	cr_assert_eq(listener_metric(pair[0], "wsonce_sources_open"), 2);
	cr_assert_eq(feed_connections(endpoints[0][0]), 1);
	cr_assert_eq(feed_connections(endpoints[0][1]), 1);
	cr_assert_eq(listener_stop(pair[0]), 0);
	cr_assert_eq(bench_rows(), EVENTS);
	cr_assert_eq(sum_of("received + coalesce(unknown, 0)", "pair-0"), EVENTS);
	cr_assert_eq(sum_of("received + coalesce(unknown, 0)", "pair-0/2"), EVENTS / 20 * 19);
	cr_assert_eq(sum("stored"), EVENTS);
	cr_assert_eq(sum("unknown"), 0);
	cr_assert_eq(ask(""), 1);
	cr_assert_gt(share("differing"), 0, "if a minute ended meanwhile, the rest of it may lack no copy");
	database_exec(db, "UPDATE line_minutes AS m SET received = o.received, received_sum = o.received_sum FROM "
			  "line_minutes AS o WHERE o.minute = m.minute AND o.listener < m.listener");
	cr_assert_eq(ask(""), 0);
	cr_assert_eq(share("verified"), 1);
}

Test(lines, a_line_whose_mirror_is_dead_takes_no_other_lines_place, .init = bench_open)
{
	endpoints[0][0] = feed_new();
	start_pair(0, feed_url(endpoints[0][0]), NULL);
	await(listener_page_has(pair[0], "/readyz", "degraded: line feed/2 is not ready"), SETTLED_MS);
	cr_assert_eq(listener_status(pair[0], "/readyz"), 200);
	feed_send_text(endpoints[0][0], "{\"event_id\":\"a\"}");
	await(bench_rows() == 1, SETTLED_MS);
	await(listener_metric(pair[0], "wsonce_source_disconnects_total") >= 3, SETTLED_MS);
	cr_assert_eq(feed_connections(endpoints[0][0]), 1);
	feed_free(endpoints[0][0]);
	await(listener_status(pair[0], "/readyz") == 503, SETTLED_MS);
	cr_assert_eq(listener_stop(pair[0]), 0);
	cr_assert_eq(sum_of("received", "pair-0"), 1);
	cr_assert_eq(sum_of("received", "pair-0/2"), 0);
	cr_assert_eq(ask(""), 1, "it was open at the end");
}

Test(lines, a_line_that_is_silent_beside_the_other_one_is_dialled_again_alone, .init = bench_open)
{
	open_endpoints(0);
	cr_assert(SEND_UNTIL(1, listener_metric(pair[0], "wsonce_received_total") > 20));
	feed_mute(endpoints[0][1], "GET");
	cr_assert(SEND_UNTIL(1, feed_connections(endpoints[0][1]) == 2));
	cr_assert(listener_has_logged(pair[0], "source=feed/2"));
	cr_assert(listener_page_has(pair[0], "/readyz", "degraded: source feed/2 is silent"));
	feed_mute(endpoints[0][1], NULL);
	cr_assert(SEND_UNTIL(1, listener_has_logged(pair[0], "source brings messages again")));
	cr_assert_eq(feed_connections(endpoints[0][0]), 1);
	await(bench_rows() == sent, SETTLED_MS);
	cr_assert_eq(listener_stop(pair[0]), 0);
	cr_assert_gt(sum_of("silent_ms", "pair-0/2"), 3000);
	cr_assert_eq(sum_of("silent_ms", "pair-0"), 0);
}

/* The mirror changes every tenth event. */
Test(lines, other_bytes_on_another_line_are_told, .init = bench_open)
{
	const json_t *source;

	open_endpoints(0);
	for (int n = 0; n < EVENTS; n++) {
		feed_sendf(endpoints[0][0], "{\"event_id\":\"p-%d\",\"price\":1}", n);
		feed_sendf(endpoints[0][1], "{\"event_id\":\"p-%d\",\"price\":%d}", n, n % 10 ? 1 : 2);
	}
	cr_assert(wait_until(listener_metric(pair[0], "wsonce_persisted_total") +
					     listener_metric(pair[0], "wsonce_duplicates_total") ==
				     2 * EVENTS,
			     SETTLED_MS));
	cr_assert_eq(listener_metric(pair[0], "wsonce_line_disagree_total"), EVENTS / 10);
	cr_assert_eq(listener_count_logged(pair[0], "lines of a source sent different bytes for the same event"), 1);
	cr_assert_eq(listener_stop(pair[0]), 0);
	cr_assert_eq(bench_rows(), EVENTS);
	cr_assert_eq(sum("disagree"), EVENTS / 10);
	cr_assert_eq(ask(""), 1);
	cr_assert_eq(share("verified"), 1, "both had all ids");
	source = json_array_get(json_object_get(told, "sources"), 0);
	cr_assert_eq(json_integer_value(json_object_get(source, "disagree")), EVENTS / 10);
	cr_assert_eq(json_array_size(json_object_get(source, "disagreements")), EVENTS / 10);
	run_expect(db, 1, "20 copies came with other bytes", "lines");
	run_expect(db, 1, "and 10 more", "lines");
}

Test(lines, two_listeners_with_two_lines_outlive_a_kill_of_one, .init = bench_open)
{
	for (int i = 0; i < 2; i++)
		open_endpoints(i);
	cr_assert(SEND_UNTIL(2, listener_metric(pair[1], "wsonce_received_total") > 100));
	for (int n = 0; n < 50; n++)
		send_to_pairs(2, true);
	listener_kill(pair[0]);
	for (int n = 0; n < 50; n++)
		send_to_pairs(2, true);
	await(bench_rows() == sent, SETTLED_MS, "%ld rows of %d", bench_rows(), sent);
	cr_assert_eq(database_long(db, "SELECT count(DISTINCT event_id) FROM events"), sent);
	await(listener_metric(pair[1], "wsonce_in_flight") == 0, SETTLED_MS);
	cr_assert_eq(listener_stop(pair[1]), 0);
	cr_assert_eq(sum_of("received + coalesce(unknown, 0)", "pair-1"), sent);
	cr_assert_eq(sum_of("received_sum", "pair-1"), sum_of("received_sum", "pair-1/2"));
	database_exec(db, "DELETE FROM line_minutes WHERE listener LIKE 'pair-0%%'");
	cr_assert_neq(ask(""), 1, "a loss is invented");
}

/* Nobody can say in which minute a copy belongs that settles through the store. */
Test(lines, without_redis_nothing_is_verified)
{
	start_fleet("none");
	send_events((const int[]){0, 0, 0});
	stop(0);
	cr_assert_eq(sum("stored"), EVENTS);
	cr_assert_gt(sum("unknown"), 0);
	cr_assert_neq(ask(""), 1, "a loss is invented");
	cr_assert_float_eq(share("verified"), 0, 1e-9);
}

Test(lines, time_without_a_connection_is_told_to_the_millisecond, .init = bench_open)
{
	database_exec(db,
		      "INSERT INTO line_minutes SELECT date_trunc('minute', now()) - n * interval '1 minute', 'feed', "
		      "'line-0.0123456789abcdef', 0, 0, 0, 0, 0, 0, CASE n WHEN 5 THEN '{0,1500,4000,60000}' ELSE "
		      "'{0,60000}' END::int[] FROM generate_series(0, 9) AS n");
	struct run run = run_on(db, "lines");
	cr_assert_eq(run.status, 1, "%s", run.errors);
	cr_assert_not_null(strstr(run.output, ": 2.500 s\n"), "%s", run.output);
	cr_assert_not_null(strstr(run.output, "O--"), "%s", run.output);
}

/* Not 1, which says that something is missing. */
Test(lines, a_database_that_cannot_be_asked_is_status_2)
{
	cr_assert_eq(run_in(NULL, "lines --store sqlite:///nowhere/events.db").status, 2);
	cr_assert_eq(run_in(NULL, "lines --postgres postgresql://127.0.0.1:1/events").status, 2);
}

/* As after weeks in which no listener ran: the first batch waits for the first check-in. */
Test(lines, a_checkin_deletes_a_bounded_number_of_old_rows, .init = bench_open)
{
	struct listener_options options = {.without_waiting = true};

	database_exec(
		db, "INSERT INTO line_minutes SELECT date_trunc('minute', now()) - n * interval '1 minute' - interval "
		    "'40 days', 'feed', 'line-0.0123456789abcdef', 0, 0, 0, 0, 0, 0, '{}' FROM "
		    "generate_series(1, 5000) AS n");
	options.database = db;
	mirrors[0] = feed_new();
	fleet[0] = listener_start(&options, "--source feed=%s", feed_url(mirrors[0]));
	listener_wait_ready(fleet[0]);
	cr_assert_eq(listener_stop(fleet[0]), 0);
	cr_assert_eq(bench_count("line_minutes WHERE minute < now() - interval '30 days'"), 1000,
		     "the first check-in and the last one");
	fleet[0] = listener_start(&options, "--source feed=%s --lines-keep 1000d", feed_url(mirrors[0]));
	listener_wait_ready(fleet[0]);
	cr_assert_eq(listener_stop(fleet[0]), 0);
	cr_assert_eq(bench_count("line_minutes WHERE minute < now() - interval '30 days'"), 1000,
		     "this one keeps them");
}

/* Without the third row of a minute, the lines of the others could seem to have all. */
Test(lines, a_checkin_deletes_whole_minutes, .init = bench_open)
{
	struct listener_options options = {.without_waiting = true};

	database_exec(db, "INSERT INTO line_minutes SELECT date_trunc('minute', now()) - n * interval '1 minute' - "
			  "interval '40 days', 'feed', l || '.0123456789abcdef', 0, 0, 0, 0, 0, 0, '{}' FROM "
			  "generate_series(1, 2500) AS n, unnest('{a,b,c}'::text[]) AS l");
	options.database = db;
	mirrors[0] = feed_new();
	fleet[0] = listener_start(&options, "--source feed=%s", feed_url(mirrors[0]));
	listener_wait_ready(fleet[0]);
	cr_assert_eq(listener_stop(fleet[0]), 0);
	cr_assert_eq(bench_count("line_minutes WHERE minute < now() - interval '30 days'"), 7500 - 2 * 2001);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM (SELECT FROM line_minutes WHERE minute < now() - "
				       "interval '30 days' GROUP BY minute HAVING count(*) <> 3) AS parts"),
		     0);
}

/* Adds a row of the minute that began this many minutes before that of the test's first row. */
static void add_row(int ago, const char *name, int received, int unknown, const char *up)
{
	if (!this_minute)
		this_minute = time(NULL) / 60;
	database_exec(db,
		      "INSERT INTO line_minutes SELECT to_timestamp(%ld), 'feed', '%s', %d, %d, %d, %d, %d, 0, '%s'",
		      (this_minute - ago) * 60, name, received, received, received, received, unknown, up);
}

/* Runs wsonce lines up to the end of the minute that add_row() calls 4. */
static struct run ask_until_4(const char *flags)
{
	return run_on(db, "lines --until %s %s",
		      database_text(db, "SELECT to_char(to_timestamp(%ld), 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00')",
				    (this_minute - 3) * 60),
		      flags);
}

static void ask_between(const char *since, const char *until, int status)
{
	struct run run = run_on(db, "lines --json --since %s --until %s", since, until);

	cr_assert_eq(run.status, status, "%s%s", run.output, run.errors);
	json_decref(told);
	told = json_loads(run.output, 0, NULL);
}

static size_t lines_of(const json_t *lines_told, size_t minute)
{
	const json_t *source = json_array_get(json_object_get(lines_told, "sources"), 0);

	return json_array_size(json_object_get(json_array_get(json_object_get(source, "minutes"), minute), "lines"));
}

/* Else the line would be connected while one of the two is. */
Test(lines, sources_of_one_host_are_different_lines, .init = bench_open)
{
	struct listener_options options = {.database = db, .without_waiting = true};

	mirrors[0] = feed_new();
	fleet[0] = listener_start(&options, "--source %sa --source %sb", feed_url(mirrors[0]), feed_url(mirrors[0]));
	await(feed_clients(mirrors[0]) == 2, SETTLED_MS);
	feed_send_text(mirrors[0], "{\"event_id\":\"a\"}");
	await(bench_count("events WHERE source LIKE '127.0.0.1#_'") == 1, SETTLED_MS);
	cr_assert_eq(listener_stop(fleet[0]), 0);
	cr_assert_eq(database_long(db, "SELECT count(DISTINCT source) FROM line_minutes"), 2);
}

/* Postgres takes it for a minute. */
Test(lines, a_row_from_before_all_time_does_not_hold_the_report, .init = bench_open)
{
	add_row(5, "a.0000000000000000", 1, 0, "{0,60000}");
	database_exec(db, "INSERT INTO line_minutes SELECT '-infinity', 'feed', 'a', 0, 0, 0, 0, 0, 0, '{}'");
	run_expect(db, 1, "covered", "lines");
}

/* In the order of the rows' names, a.5's is between those of a. */
Test(lines, a_restarted_instance_is_one_line, .init = bench_open)
{
	add_row(5, "a.0000000000000000", 1, 0, "{0,30000}");
	add_row(5, "a.5.0000000000000000", 0, 0, "{0,60000}");
	add_row(5, "a.ffffffffffffffff", 1, 0, "{30001,60000}");
	struct run run = run_on(db, "lines --json");
	json_decref(told);
	told = json_loads(run.output, 0, NULL);
	cr_assert_eq(lines_of(told, 0), 2, "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"holes\":null"), "not known, which is not 0");
}

Test(lines, numbers_that_no_line_got_are_holes, .init = bench_open)
{
	add_row(4, "a.0123456789abcdef", 7, 0, "{0,60000}");
	add_row(4, "b.0123456789abcdef", 7, 0, "{0,60000}");
	database_exec(db, "UPDATE line_minutes SET gap = 0, silent_ms = 12, stored = 0, stored_sum = 0");
	struct run run = ask_until_4("--json");
	cr_assert_eq(run.status, 0, "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"holes\":0,\"lines\""), "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"silent_ms\":12"), "%s", run.output);
	database_exec(db, "UPDATE line_minutes SET gap = 3");
	run = ask_until_4("--json");
	cr_assert_eq(run.status, 1, "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"holes\":3,\n\"open\""), "%s", run.output);
	run = ask_until_4("");
	cr_assert_eq(run.status, 1, "%s", run.output);
	cr_assert_not_null(strstr(run.output, "3 numbers of the feed are missing on all lines"), "%s", run.output);
	database_exec(db, "UPDATE line_minutes SET received = 4 WHERE listener LIKE 'a.%%'");
	run = ask_until_4("--json");
	cr_assert_not_null(strstr(run.output, "\"holes\":3,\n\"open\""), "b does not have them: %s", run.output);
	database_exec(db, "UPDATE line_minutes SET gap = 0 WHERE listener LIKE 'b.%%'");
	run = ask_until_4("--json");
	cr_assert_not_null(strstr(run.output, "\"holes\":0,\n\"open\""), "b has them: %s", run.output);
}

/* What was filled before a hole was found is of a hole before it. */
Test(lines, a_hole_that_was_filled_hides_no_later_one, .init = bench_open)
{
	for (int ago = 6; ago > 3; ago--)
		add_row(ago, "a.0123456789abcdef", 7, 0, "{0,60000}");
	database_exec(db, "UPDATE line_minutes SET gap = 0; UPDATE line_minutes SET filled = 3 WHERE minute = (SELECT "
			  "min(minute) FROM line_minutes); UPDATE line_minutes SET gap = 3 WHERE minute = (SELECT "
			  "max(minute) FROM line_minutes)");
	struct run run = ask_until_4("--json");
	cr_assert_eq(run.status, 1, "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"holes\":3,\n\"open\""), "%s", run.output);
	database_exec(db, "UPDATE line_minutes SET filled = 3 - coalesce(filled, 0)");
	cr_assert_eq(ask_until_4("").status, 0);
}

/* b's copies come before the stored ones, c's are not compared. A second minute has fewer events. */
Test(lines, a_lead_is_over_the_next_line, .init = bench_open)
{
	add_row(5, "a.0123456789abcdef", 9, 0, "{0,60000}");
	add_row(5, "b.0123456789abcdef", 9, 0, "{0,60000}");
	add_row(5, "c.0123456789abcdef", 9, 0, "{0,60000}");
	database_exec(db,
		      "UPDATE line_minutes SET behind_p50 = CASE WHEN listener LIKE 'a.%%' THEN 0 ELSE -3 END, "
		      "behind_p99 = CASE WHEN listener LIKE 'a.%%' THEN 0 ELSE 7 END WHERE listener NOT LIKE 'c.%%'");
	add_row(4, "a.0123456789abcdef", 8, 0, "{0,60000}");
	add_row(4, "b.0123456789abcdef", 8, 0, "{0,60000}");
	database_exec(db, "UPDATE line_minutes SET behind_p50 = 100, behind_p99 = 200 WHERE received = 8 AND listener "
			  "LIKE 'b.%%'");
	database_exec(
		db,
		"UPDATE line_minutes SET behind_p50 = 0, behind_p99 = 0 WHERE received = 8 AND listener LIKE 'a.%%'");
	struct run run = ask_until_4("--json");
	cr_assert_not_null(strstr(run.output, "\"instance\":\"a\",\"received\":17,"), "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"lead_ms\":{\"p50\":-3,\"p99\":7}"), "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"lead_ms\":{\"p50\":3,\"p99\":-7}"), "%s", run.output);
	cr_assert_not_null(strstr(run.output, "\"lead_ms\":null"), "%s", run.output);
	run = ask_until_4("");
	cr_assert_not_null(strstr(run.output, "100.00 %      -3/7\n"), "%s", run.output);
	cr_assert_not_null(strstr(run.output, "50.00 %         -\n"), "%s", run.output);
}

#define A "\"a.0123456789abcdef\""
#define B "\"b.0123456789abcdef\""

/* What a check-in answers that asks for these minutes. */
static char *judged(int first, int past)
{
	database_exec(db, "CREATE TABLE IF NOT EXISTS got (lines TEXT); DELETE FROM got");
	database_exec(
		db,
		"DO $do$ DECLARE deleted TEXT; told TEXT; BEGIN EXECUTE $sql$%s$sql$ INTO deleted, told USING "
		"'{\"listener\": \"i\", \"dedup_window_s\": 300, \"is_leaving\": true, \"consumer\": \"\", "
		"\"targets\": [], \"target_urls\": {}, \"events\": 0, \"copies\": [], \"late\": [], "
		"\"late_weight\": 1, \"lines\": [], \"judged\": [%d, %d]}'; INSERT INTO got VALUES (told); END $do$",
		database_sql(SQL_CHECKIN), first, past);
	return database_text(db, "SELECT coalesce(replace(lines, ' ', ''), '') FROM got");
}

/* In minute 11 of x, b missed an event; in that of y, nobody was connected for a second. */
Test(lines, a_checkin_returns_the_minutes_in_which_a_line_missed_something, .init = bench_open)
{
	database_exec(
		db, "INSERT INTO line_minutes SELECT to_timestamp(m * 60), s, l || '.0123456789abcdef', r, r, "
		    "r * (l = 'a')::int, r * (l = 'a')::int, 0, 0, CASE WHEN m = 11 AND s = 'y' THEN "
		    "'{0,30000,31000,60000}' ELSE '{0,60000}' END::int[] FROM generate_series(10, 12) AS m, "
		    "unnest('{x,y,z}'::text[]) AS s, unnest('{a,b}'::text[]) AS l, LATERAL (SELECT 5 - (m = 11 AND s = "
		    "'x' AND l = 'b')::int AS r) AS x");
	cr_assert_str_eq(judged(11, 13),
			 "[[11,\"x\",5,5,5,5,0,0,[0,60000]," A ",0,1],[11,\"x\",4,4,0,0,0,0,[0,60000]," B ",0,1],"
			 "[11,\"y\",5,5,5,5,0,0,[0,30000,31000,60000]," A ",0,1],"
			 "[11,\"y\",5,5,0,0,0,0,[0,30000,31000,60000]," B ",0,1]]");
}

/* Both record the minutes 5 to 9 together, and a those from 10 on, where b has a row for each. */
Test(lines, minutes_that_are_recorded_together_are_judged_with_the_last_one, .init = bench_open)
{
	database_exec(db,
		      "INSERT INTO line_minutes SELECT to_timestamp(m * 60), 'x', l || '.0123456789abcdef', r, r, 0, "
		      "0, 0, 0, ARRAY[0, n * 60000], NULL, NULL, NULL, NULL, NULL, nullif(n, 1) FROM (VALUES (5, 'a', "
		      "5, 50), (5, 'b', 5, 50), (10, 'a', 5, 50), (10, 'b', 1, 10), (11, 'b', 1, 10), (12, 'b', 1, "
		      "10), (13, 'b', 1, 10), (14, 'b', 1, 9)) AS v (m, l, n, r)");
	cr_assert_str_eq(judged(9, 10), "", "nobody missed anything");
	cr_assert_str_eq(judged(10, 14), "");
	cr_assert_str_eq(judged(15, 30), "");
	cr_assert_str_eq(judged(14, 15),
			 "[[10,\"x\",50,50,0,0,0,0,[0,300000]," A ",0,5],[10,\"x\",10,10,0,0,0,0,[0,60000]," B ",0,5],"
			 "[10,\"x\",10,10,0,0,0,0,[0,60000]," B ",1,5],[10,\"x\",10,10,0,0,0,0,[0,60000]," B ",2,5],"
			 "[10,\"x\",10,10,0,0,0,0,[0,60000]," B ",3,5],[10,\"x\",9,9,0,0,0,0,[0,60000]," B ",4,5]]");
}

/* a recorded ten minutes in two rows, b in ten. */
Test(lines, a_report_of_five_minutes_together_has_their_sum, .init = bench_open)
{
	const json_t *source, *minute;
	char *until, *since;

	database_exec(
		db,
		"INSERT INTO line_minutes SELECT to_timestamp((m + (extract(epoch FROM now())::bigint / 300 - 4) * 5) "
		"* 60), 'x', l || '.0123456789abcdef', n * 10, n * 10, CASE l WHEN 'a' THEN n * 10 ELSE 0 END, CASE l "
		"WHEN 'a' THEN n * 10 ELSE 0 END, 0, 0, ARRAY[0, n * 60000], NULL, 0, NULL, NULL, NULL, nullif(n, 1) "
		"FROM (SELECT 0, 'a', 5 UNION ALL SELECT 5, 'a', 5 UNION ALL SELECT m, 'b', 1 FROM generate_series(0, "
		"9) AS m) AS v (m, l, n)");
	since = database_text(
		db, "SELECT to_char(min(minute) + interval '1 minute', 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') FROM "
		    "line_minutes");
	until = database_text(
		db, "SELECT to_char(max(minute) + interval '1 minute', 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') FROM "
		    "line_minutes");
	ask_between(since, until, 0);
	source = json_array_get(json_object_get(told, "sources"), 0);
	minute = json_array_get(json_object_get(source, "minutes"), 0);
	cr_assert_eq(json_array_size(json_object_get(source, "minutes")), 2);
	cr_assert_float_eq(share("verified"), 1, 1e-9);
	cr_assert_eq(json_integer_value(json_object_get(minute, "stored")), 50);
	cr_assert_eq(json_integer_value(json_object_get(minute, "length_ms")), 300000);
	database_exec(db, "UPDATE line_minutes SET received = 9, up = '{0,59000}' WHERE minute = (SELECT max(minute) "
			  "FROM line_minutes)");
	ask_between(since, until, 0);
	cr_assert_float_eq(share("covered"), 0.5, 1e-9, "b missed one, perhaps while it was not connected");
	database_exec(db,
		      "UPDATE line_minutes SET up = '{0,60000}' WHERE minute = (SELECT max(minute) FROM line_minutes)");
	ask_between(since, until, 1);
	cr_assert_float_eq(share("differing"), 0.5, 1e-9);
	/* Of the second five, four are over. */
	until = database_text(db, "SELECT to_char(max(minute), 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') FROM line_minutes");
	ask_between(since, until, 0);
	cr_assert_float_eq(share("verified"), 1, 1e-9);
	ask_between(database_text(
			    db,
			    "SELECT to_char(max(minute) - interval '1 minute', 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') FROM "
			    "line_minutes"),
		    until, 2);
}

Test(lines, a_listener_with_201_sources_records_five_minutes_together, .init = bench_open)
{
	char urls[201 * 60] = "WSONCE_SOURCE", *at = urls + strlen(urls);
	const char *env[] = {urls, NULL};
	struct listener_options options = {.database = db, .env = env, .without_waiting = true};

	mirrors[0] = feed_new();
	for (int i = 0; i < 201; i++)
		at += sprintf(at, "%cs%d=%s%d", i ? ',' : '=', i, feed_url(mirrors[0]), i);
	fleet[0] = listener_start(&options, NULL);
	cr_assert(wait_until(feed_clients(mirrors[0]) == 201, SETTLED_MS));
	feed_send_text(mirrors[0], "{\"event_id\":\"a\"}");
	cr_assert(wait_until(database_long(db, "SELECT count(*) FROM events") == 1, SETTLED_MS));
	cr_assert_eq(listener_stop(fleet[0]), 0);
	cr_assert_eq(database_long(db, "SELECT count(DISTINCT source) FROM line_minutes"), 201);
	cr_assert_eq(
		database_long(
			db,
			"SELECT count(*) FROM line_minutes WHERE minutes = 5 AND extract(epoch FROM minute)::bigint %% "
			"300 = 0"),
		database_long(db, "SELECT count(*) FROM line_minutes"));
}

/* Its copy of the minute before came after the restart, and nobody knows of which minute it is. */
Test(lines, an_unknown_copy_after_a_restart_may_be_the_one_that_seems_missing, .init = bench_open)
{
	add_row(4, "a.0000000000000000", 0, 0, "{0,60000}");
	add_row(4, "b.0000000000000000", 1, 0, "{0,60000}");
	add_row(3, "a.ffffffffffffffff", 0, 1, "{0,60000}");
	add_row(3, "b.0000000000000000", 0, 0, "{0,60000}");
	cr_assert_eq(ask_until_4("").status, 2);
}

/* c was killed in the minute after the one that it told of. What it stored in it, a and b may have missed. */
Test(lines, two_lines_do_not_verify_a_minute_of_which_a_killed_one_has_not_told, .init = bench_open)
{
	for (int ago = 7; ago > 3; ago--) {
		add_row(ago, "a.0000000000000000", 1, 0, "{0,60000}");
		add_row(ago, "b.1111111111111111", 1, 0, "{0,60000}");
	}
	database_exec(db, "UPDATE line_minutes SET stored = 0, stored_sum = 0 WHERE listener LIKE 'b.%%'");
	cr_assert_not_null(strstr(ask_until_4("").output, " ====\n"));
	add_row(7, "c.2222222222222222", 1, 0, "{0,60000}");
	database_exec(db, "UPDATE line_minutes SET stored = 0, stored_sum = 0 WHERE listener LIKE 'c.%%'");
	struct run run = ask_until_4("");
	cr_assert_eq(run.status, 0, "%s", run.output);
	cr_assert_not_null(strstr(run.output, " =--=\n"), "%s", run.output);
	run = ask_until_4(
		suite_text("--since %s", database_text(db, "SELECT to_char(min(minute) + interval '1 minute', "
							   "'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') FROM line_minutes")));
	cr_assert_not_null(strstr(run.output, " --=\n"), "%s", run.output);
	/* It told of its end. */
	add_row(6, "c.2222222222222222", 1, 0, "{0,12345}");
	database_exec(db, "UPDATE line_minutes SET stored = 0, stored_sum = 0 WHERE listener LIKE 'c.%%'");
	run = ask_until_4("");
	cr_assert_not_null(strstr(run.output, " ====\n"), "%s", run.output);
}

/* A check-in of a listener that has been connected to 40 sources. */
static void check_in(const char *name, long minute, bool is_leader)
{
	database_exec(
		db,
		"DO $do$ BEGIN EXECUTE $sql$%s$sql$ USING jsonb_build_object('listener', '%s.0123456789abcdef', "
		"'dedup_window_s', 300, 'is_leaving', false, 'consumer', '', 'targets', '[]'::jsonb, "
		"'target_urls', '{}'::jsonb, 'report', '{\"whole_minutes_are_null\": true}'::jsonb, 'events', 0, "
		"'copies', '[]'::jsonb, 'late', '[]'::jsonb, 'late_weight', 1, 'lines_keep_s', 2592000, 'judged', "
		"'[0, 0]'::jsonb, 'lines', (SELECT jsonb_agg(jsonb_build_array(%ld, 'source-' || s, 30000, s << "
		"50, 30000 * n, (s << 50) * n, 0, 0, '[0, 60000]'::jsonb, NULL, 0, 0, 12, 88, '', 1, NULL, NULL)) "
		"FROM generate_series(100::bigint, 139) AS s, (VALUES (%d)) AS v (n))); END $do$",
		database_sql(SQL_CHECKIN), name, minute, is_leader);
}

Test(lines, a_row_takes_at_most_200_bytes_with_its_part_of_the_index, .init = bench_open)
{
	long minute = database_long(db, "SELECT extract(epoch FROM now())::bigint / 60");

	for (int i = 100; i > 0; i--) {
		check_in("listener-1", minute - i, true);
		check_in("listener-2", minute - i, false);
	}
	cr_assert_eq(bench_count("line_minutes WHERE up IS NULL AND unknown IS NULL"), 8000);
	cr_assert_leq(database_long(db, "SELECT pg_total_relation_size('line_minutes') / 8000"), 200);
	/* One of the version before would take that for a minute without a connection. */
	database_exec(db, "UPDATE wsonce_listeners SET report = '{}' WHERE listener LIKE 'listener-2.%%'");
	check_in("listener-1", minute, true);
	cr_assert_eq(bench_count("line_minutes WHERE up = '{0,60000}'"), 40);
}

/* What a feed sent that has been silent for so long may have gone nowhere. */
Test(lines, a_connection_that_was_given_up_counts_until_its_last_message, .init = bench_open)
{
	struct listener_options options = {.database = db, .without_waiting = true};
	int64_t since_ms = wait_now_ms();

	mirrors[0] = feed_new();
	fleet[0] = listener_start(&options, "--source feed=%s --idle-timeout 2", feed_url(mirrors[0]));
	cr_assert(feed_wait_clients(mirrors[0], 1, SETTLED_MS));
	feed_send_text(mirrors[0], "{\"event_id\":\"a\"}");
	await(bench_rows() == 1, SETTLED_MS);
	await(feed_connections(mirrors[0]) == 2 && listener_metric(fleet[0], "wsonce_sources_open") == 1, SETTLED_MS);
	cr_assert_eq(listener_stop(fleet[0]), 0);
	cr_assert_leq(sum("up[2] - up[1] + coalesce(up[4] - up[3], 0)"), wait_now_ms() - since_ms - 2000);
}

/* All states in a day, with numbers of four digits. */
Test(lines, a_line_of_the_table_has_at_most_80_columns, .init = bench_open)
{
	size_t most = 0;

	database_exec(db,
		      "INSERT INTO line_minutes SELECT date_trunc('minute', now()) - n * interval '1 minute', 'feed', "
		      "l || '.0123456789abcdef', r, r, r, r, (n %% 5 = 3 AND l = 'b')::int, 0, CASE n %% 5 WHEN 4 THEN "
		      "'{0,9}' ELSE '{0,60000}' END::int[] FROM generate_series(0, 6000) AS n, unnest('{a,b}'::text[]) "
		      "AS l, LATERAL (SELECT (n %% 5 = 2 AND l = 'a')::int AS r) AS x WHERE n %% 5 <> 1 OR l = 'a'");
	struct run run = run_on(db, "lines --since 4d");
	for (const char *at = run.output; *at; at += strcspn(at, "\n"), at += *at == '\n')
		most = strcspn(at, "\n") > most ? strcspn(at, "\n") : most;
	cr_assert_not_null(strstr(run.output, "unverified"), "%.300s", run.output);
	cr_assert_leq(most, 80, "%.300s", run.output);
}

/* 70,000 rows are more than are read at once. A line of each source lacks an event in each minute, and may have it in
 * every second one, in which the other source's may not: where the first part ends, a minute needs the next one. */
Test(lines, a_report_of_many_rows_is_read_in_parts, .init = bench_open)
{
	const char *since, *until;

	database_exec(db, "INSERT INTO line_minutes SELECT date_trunc('minute', now()) - n * interval '1 minute', s, l "
			  "|| '.0123456789abcdef', (l < 35)::int, (l < 35)::int, (l = 1)::int, (l = 1)::int, CASE WHEN "
			  "l = 35 AND n %% 2 = (s = 'a')::int THEN 1 ELSE 0 END, 0, '{0,60000}' FROM "
			  "generate_series(3, 1003) AS n, generate_series(1, 35) AS l, unnest(ARRAY['a', 'b']) AS s");
	since = database_text(db,
			      "SELECT to_char(min(minute) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM "
			      "line_minutes");
	until = database_text(db,
			      "SELECT to_char(max(minute) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM "
			      "line_minutes");
	struct run run = run_on(db, "lines --since %s --until %s", since, until);
	cr_assert_eq(run.status, 2, "%s", run.output);
	cr_assert(strstr(run.output, "a\n  of 1000 minutes\n  1000 unverified\n"), "%s", run.output);
	cr_assert(strstr(run.output, "b\n  of 1000 minutes\n  1000 unverified\n"), "%s", run.output);
}
