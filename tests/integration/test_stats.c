/* wsonce stats duplicates: the counts of duplicates outlive the listeners, are summed over the fleet, and include
 * copies that came long after the window. */
#include "support.h"
#include "bench.h"

#define ACKS       "wsonce.ack.v1"
#define SETTLED_MS 20000

static json_t *told;

static void ask(void)
{
	told = run_json(db, 0, "stats duplicates --json");
}

static long number(const char *name)
{
	return (long)json_number_value(json_object_get(told, name));
}

/* Copies with a delay from this many milliseconds to twice as many. */
static long copies_from(long ms)
{
	const json_t *delay;
	size_t i;

	json_array_foreach(json_object_get(told, "delays"), i, delay)
	{
		if (json_integer_value(json_object_get(delay, "from_ms")) == ms)
			return (long)json_integer_value(json_object_get(delay, "copies"));
	}
	return 0;
}

static void send_and_expect(struct peer *p, const char *id, const char *status)
{
	peer_sendf(p, "{\"event_id\":\"%s\"}", id);
	ack_expect(p, id, status);
}

static void end(struct listener *l, struct peer *p)
{
	peer_free(p);
	cr_assert_eq(listener_stop(l), 0);
}

Test(stats, copies_of_several_listeners_are_added_up_and_events_are_counted_once, .init = bench_open)
{
	for (int i = 0; i < 3; i++) {
		struct listener *l = listener_start(&(struct listener_options){.database = db}, NULL);
		struct peer *p = peer_open_events(listener_ingest_port(l), ACKS);
		char once[20];

		send_and_expect(p, "a", i ? "duplicate" : "persisted");
		send_and_expect(p, "b", i ? "duplicate" : "persisted");
		send_and_expect(p, "a", "duplicate");
		snprintf(once, sizeof once, "once-%d", i);
		send_and_expect(p, once, "persisted");
		end(l, p);
	}
	ask();
	cr_assert_eq(number("events"), 5);
	cr_assert_eq(number("copies"), 7);
	cr_assert_eq(number("dedup_window_s"), 300);
	cr_assert_eq(number("bytes_per_mark"), 165);
	/* One row of all, or two around midnight. */
	cr_assert_eq(database_long(db, "SELECT count(*) - (max(day) - min(day)) FROM wsonce_duplicates"), 1);
}

/* The row's age counts, not the minute after which Postgres is asked for it. */
Test(stats, copies_beyond_the_window_are_counted_by_the_age_of_the_row, .init = bench_open)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db, .redis = "none"}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), ACKS);

	send_and_expect(p, "day-old", "persisted");
	send_and_expect(p, "caf\xc3\xa9", "persisted");
	database_exec(db, "UPDATE events SET processed_at = now() - interval '1 day' WHERE event_id = 'day-old'");
	send_and_expect(p, "day-old", "duplicate");
	end(l, p);
	ask();
	cr_assert_eq(number("copies"), 1);
	cr_assert_eq(copies_from(67108864), 1, "2^26 ms is 18.6 h");
	cr_assert_eq(number("share_within"), 0);
	cr_assert_not_null(strstr(json_string_value(json_object_get(told, "advice")), "--dedup-window 259200 "));
}

/* They settle copies of rows that the other one stored without a query, and see when those were stored. */
Test(stats, copies_of_listeners_without_redis_are_all_counted, .init = bench_open)
{
	struct feed *feed = feed_new();
	struct listener *fleet[2];

	for (int i = 0; i < 2; i++)
		fleet[i] = listener_start(
			&(struct listener_options){.database = db, .redis = "none", .without_ingest = true},
			"--source %s", feed_url(feed));
	cr_assert(feed_wait_clients(feed, 2, SETTLED_MS));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 60; i++)
			feed_sendf(feed, "{\"event_id\":\"%d\"}", i);
		await(listener_metric(fleet[0], "wsonce_received_total") == 60 * (round + 1) &&
			      listener_metric(fleet[1], "wsonce_received_total") == 60 * (round + 1) &&
			      listener_metric(fleet[0], "wsonce_in_flight") == 0 &&
			      listener_metric(fleet[1], "wsonce_in_flight") == 0,
		      SETTLED_MS);
	}
	for (int i = 0; i < 2; i++)
		cr_assert_eq(listener_stop(fleet[i]), 0);
	ask();
	cr_assert_eq(number("events"), 60);
	cr_assert_eq(number("copies"), 2 * 3 * 60 - 60, "%ld", number("copies"));
}

static void expect_pair(const char *name, const char *id, long low, long high)
{
	const json_t *pair = json_object_get(told, name);
	long ms = (long)json_integer_value(json_object_get(pair, "ms"));

	cr_expect_str_eq(json_string_value(json_object_get(pair, "event_id")), id);
	cr_expect(ms >= low && ms <= high, "%s: %ld ms", name, ms);
}

/* Each listener counts some of the copies. */
Test(stats, keys_are_counted_by_how_often_they_came_and_the_closest_and_farthest_pair_are_shown, .init = bench_open)
{
	static const char *const sent[2][7] = {{"two", "three", "four", "once", "old", "two"},
					       {"three", "four", "three", "four", "four", "old"}};

	for (int i = 0; i < 2; i++) {
		struct listener *l = listener_start(&(struct listener_options){.database = db, .redis = "none"}, NULL);
		struct peer *p = peer_open_events(listener_ingest_port(l), ACKS);

		for (int n = 0; sent[i][n]; n++)
			send_and_expect(p, sent[i][n],
					bench_count("events WHERE event_id = '%s'", sent[i][n]) ? "duplicate"
												: "persisted");
		end(l, p);
		database_exec(db, "UPDATE events SET processed_at = now() - interval '1 day' WHERE event_id = 'old'");
	}
	ask();
	cr_expect_eq(number("keys_twice"), 2);
	cr_expect_eq(number("keys_three_times"), 1);
	cr_expect_eq(number("keys_more_often"), 1);
	cr_expect(json_is_false(json_object_get(told, "keys_are_estimated")));
	expect_pair("closest", "two", 0, SETTLED_MS);
	expect_pair("farthest", "old", 86400000, 86400000 + SETTLED_MS);
	run_expect(db, 0, "keys that came twice                    2\n", "stats duplicates");
	run_expect(db, 0, "farthest pair                         1 d  old\n", "stats duplicates");
}

Test(stats, many_keys_are_estimated_from_a_sample_of_all_days, .init = bench_open)
{
	run_expect(db, 0, NULL, "migrate");
	/* 1,000 keys with hashes spread evenly; each comes again on two of three days. */
	database_exec(db, "INSERT INTO wsonce_duplicates SELECT date '2026-01-01' + d, 1000, "
			  "ARRAY[1000] || array_fill(0::bigint, ARRAY[40]), '', (SELECT jsonb_object_agg("
			  "lpad(to_hex(n * 18014398509481984), 16, '0'), 1) FROM generate_series(1, 256) AS n "
			  "WHERE n %% 3 <> d), jsonb_build_array(d, 'c' || d), jsonb_build_array(9 - d, 'f' || d) "
			  "FROM generate_series(0, 2) AS d");
	ask();
	cr_expect(number("keys_three_times") > 980 && number("keys_three_times") < 1030, "%ld",
		  number("keys_three_times"));
	cr_expect_eq(number("keys_twice"), 0);
	cr_expect(json_is_true(json_object_get(told, "keys_are_estimated")));
	expect_pair("closest", "c0", 0, 0);
	expect_pair("farthest", "f0", 9, 9);
	run_expect(db, 0, "  estimated\n", "stats duplicates");
}

Test(stats, fleet_without_duplicates_is_told_so, .init = bench_open)
{
	run_expect(db, 0, NULL, "migrate");
	run_expect(db, 0, "nothing is counted yet", "stats duplicates");
	ask();
	cr_assert(json_is_null(json_object_get(told, "first_day")));
	struct listener *l = listener_start(&(struct listener_options){.database = db}, "--dedup-window 60");
	struct peer *p = peer_open_events(listener_ingest_port(l), ACKS);
	send_and_expect(p, "a", "persisted");
	end(l, p);
	run_expect(db, 0, "No event came more than once", "stats duplicates");
	run_expect(db, 0, "events stored", "stats duplicates --since 7d");
	run_expect(db, 0, "nothing is counted since then", "stats duplicates --since 2999-01-01T00:00:00Z");
}

Test(stats, plot_shows_when_copies_came_and_what_a_longer_window_costs, .init = bench_open)
{
	run_expect(db, 0, NULL, "migrate");
	database_exec(
		db,
		"INSERT INTO wsonce_duplicates SELECT date '2026-01-01', 8640000, array_fill(0::bigint, ARRAY[20]) || "
		"ARRAY[900, 0, 0, 50, 50] || array_fill(0::bigint, ARRAY[16]), "
		"decode(repeat('00', 1023) || '01', 'hex')");
	struct run run = run_on(db, "stats duplicates --redis none");
	cr_assert_eq(run.status, 0);
	cr_assert(strstr(run.output, "   8.74 min            900 ########################################\n"), "%s",
		  run.output);
	cr_assert(strstr(run.output, "     1.17 h             50 ###\n"), "%s", run.output);
	cr_assert(strstr(run.output, "             300           0.00 %           4.7 MiB  (now)\n"), "%s", run.output);
	cr_assert(strstr(run.output, "--dedup-window 43200 would spare Postgres"), "%s", run.output);
	run_expect_error(db, 2, "--since", "stats duplicates --since yesterday");
	run_expect_error(db, 2, "stats --help", "stats");
}

/* Adds a row for that day, and returns the report over all days. */
static void count_events(const char *day, const char *events)
{
	database_exec(db,
		      "INSERT INTO wsonce_duplicates SELECT %s, %s, array_fill(0::bigint, ARRAY[41]), "
		      "decode(repeat('00', 1024), 'hex')",
		      day, events);
}

Test(stats, days_and_rates_are_written_as_people_read_them, .init = bench_open)
{
	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "DO $$BEGIN EXECUTE format('ALTER DATABASE %%I SET DateStyle = ''German''', "
			  "current_database()); END$$");
	count_events("date '2026-01-02'", "43200");
	run_expect(db, 0, "Redis, at 0.50 events/s", "stats duplicates --redis none");
	count_events("date '2026-01-31'", "86400 * 12345");
	run_expect(db, 0, "duplicates from 2026-01-02 to 2026-01-31 (UTC)\n", "stats duplicates --redis none");
	run_expect(db, 0, "Redis, at 12345 events/s", "stats duplicates --redis none");
}

/* The first check-in after midnight covers a minute, of which the new day may have a second. */
Test(stats, day_that_has_just_begun_is_not_the_busiest_for_its_first_note, .init = bench_open)
{
	run_expect(db, 0, NULL, "migrate");
	count_events("(now() AT TIME ZONE 'UTC')::date + 1", "7200");
	ask();
	cr_assert_eq(number("events_per_second"), 2);
}

Test(stats, listener_that_runs_tells_of_itself_and_takes_that_back_when_it_leaves, .init = bench_open)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db}, "--instance-id me");

	await(bench_count("wsonce_listeners WHERE listener LIKE 'me.%%' AND max_age_s IS NULL"), SETTLED_MS);
	cr_assert_eq(listener_stop(l), 0);
	cr_assert_eq(bench_count("wsonce_listeners"), 0);
}

/* True if both listeners could store their counts at their end. They wait only a second, which may be too short on a
 * busy machine. */
static bool are_counts_right_though_connections_end(void)
{
	struct fleet fleet;

	db = database_new();
	fleet_start(&fleet, 2, db, NULL, NULL);
	/* A first check-in that is in flight when its connection ends is lost. */
	await(bench_count("wsonce_listeners") == 2, SETTLED_MS);
	fleet_send(&fleet, 1000);
	fleet_wait_rows(&fleet, 1000, SETTLED_MS);
	database_terminate_backends(db);
	fleet_send(&fleet, 1000);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	await(fleet_metric(&fleet, "wsonce_received_total") == 4000, SETTLED_MS);
	fleet_must_be_whole(&fleet, SETTLED_MS);
	for (int i = 0; i < fleet.size; i++)
		cr_assert_eq(listener_stop(fleet.listeners[i]), 0);
	bool is_told = bench_count("wsonce_listeners") == 0;
	ask();
	/* Two listeners got each of 2000 events, and sent some to Postgres again because the answer was lost. */
	cr_assert(!is_told || (number("copies") > 1900 && number("copies") < 3100), "%ld", number("copies"));
	fleet_end(&fleet);
	told = NULL;
	return is_told;
}

Test(stats, connections_that_postgres_ends_cost_neither_events_nor_what_is_counted)
{
	await(are_counts_right_though_connections_end(), 3 * SETTLED_MS, "nobody tells what he counted");
}
