/* The spool: events of a feed, which nobody would send again, outlive a long outage of Postgres and the death of all
 * listeners. */
#include "support.h"

#include <libgen.h>
#include <limits.h>

#define WHOLE_MS 30000
#define SOON_MS  10000

static struct fleet fleet;
static struct postgres *postgres;

/* A fleet with spools, on a Postgres of its own. */
static void start(int size, const char *const *env, const char *flags)
{
	struct listener_options options = {.spool = suite_path("base"), .env = env};

	postgres = postgres_new();
	mkdir(options.spool, 0700);
	options.spool = suite_path("base/spool");
	fleet_start(&fleet, size, postgres_database(postgres), &options, flags);
}

static void restart(void)
{
	for (int i = 0; i < fleet.size; i++)
		fleet_launch_one(&fleet, i);
}

static void kill_all(void)
{
	for (int i = 0; i < fleet.size; i++)
		process_signal(listener_process(fleet.listeners[i]), SIGKILL);
	for (int i = 0; i < fleet.size; i++)
		cr_assert_eq(process_wait(listener_process(fleet.listeners[i]), SOON_MS), 128 + SIGKILL);
}

/* The feed hangs up if it has to wait: then what it sends meanwhile is lost. */
static void send_without_waiting(long count)
{
	for (long n = 0; n < count; n += 500) {
		fleet_send(&fleet, 500);
		cr_assert(feed_flush(fleet.feed, SOON_MS), "a listener does not read the feed");
	}
}

/* True if this many events are on the disk of each listener. */
static bool are_on_disk(long count)
{
	for (int i = 0; i < fleet.size; i++)
		if (listener_metric(fleet.listeners[i], "wsonce_spooled_total") < (double)count)
			return false;
	return true;
}

static bool has_segments(int i)
{
	const char *const argv[] = {"sh", "-c", suite_text("ls %s/base/spool-%d/*.segment", suite_directory(), i),
				    NULL};

	return process_run(argv, SOON_MS) == 0;
}

static bool is_clean(void)
{
	for (int i = 0; i < fleet.size; i++)
		if (has_segments(i))
			return false;
	return true;
}

/* The measured case: six times the budget arrives while Postgres is away, then all die. */
Test(spool, a_long_outage_and_the_death_of_all_listeners_lose_nothing, .timeout = 120)
{
	fleet.payload = 0;
	start(2, NULL, "--max-inflight-bytes 2MiB");
	fleet_send(&fleet, 100);
	fleet_wait_rows(&fleet, 100, WHOLE_MS);
	postgres_stop(postgres);
	fleet.payload = 600;
	send_without_waiting(20000);
	await(are_on_disk(20000), WHOLE_MS, "%g of 20000 events are on disk",
	      listener_metric(fleet.listeners[0], "wsonce_spooled_total"));
	cr_assert_leq(listener_metric(fleet.listeners[0], "wsonce_in_flight_bytes"), 2 << 20);
	kill_all();
	postgres_start(postgres);
	restart();
	fleet_wait_ready(&fleet);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	await(is_clean(), SOON_MS, "segments are left");
}

Test(spool, what_left_memory_comes_back_when_postgres_does, .timeout = 120)
{
	start(1, NULL, "--max-inflight-bytes 2MiB");
	postgres_stop(postgres);
	fleet.payload = 600;
	send_without_waiting(20000);
	await(listener_metric(fleet.listeners[0], "wsonce_in_flight") == 20000, WHOLE_MS);
	postgres_start(postgres);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_gt(fleet_metric(&fleet, "wsonce_unspooled_total"), 10000);
	await(is_clean(), SOON_MS, "segments are left");
}

/* Starts one listener with little memory on a feed with a cursor. */
static struct feed *start_numbered(void)
{
	struct feed *feed = feed_new();
	const char *url = feed_url(feed);
	const char *profile = suite_text("{\"name\": \"numbered\", \"url\": \"%s\", \"url_resume\": "
					 "\"%s?from=${cursor}\", \"cursor\": {\"kind\": \"max\"}, \"rules\": "
					 "[{\"action\": \"event\", \"id\": [[\"/n\"]], \"cursor\": \"/n\"}]}",
					 url, url);

	start(1, NULL, suite_text("--max-inflight-bytes 2MiB --feed %s", suite_file("numbered.json", profile)));
	feed_wait_clients(feed, 1, SOON_MS);
	return feed;
}

/* Sends the events from first to 12000, which a listener must read. */
static void send_numbered(struct feed *feed, long first)
{
	for (long n = first; n <= 12000; n++) {
		feed_sendf(feed, "{\"n\": %ld, \"text\": \"%0400d\"}", n, 0);
		if (n % 500 == 0)
			cr_assert(feed_flush(feed, SOON_MS), "a listener does not read the feed");
	}
}

/* Its feed could send them again, but other feeds must be read, too, and it may not keep them for long. If the disk is
 * lost, the feed is asked for what is behind the cursor. */
Test(spool, a_cursor_waits_for_what_is_on_disk_alone, .timeout = 120)
{
	struct feed *feed = start_numbered();

	postgres_stop(postgres);
	send_numbered(feed, 1);
	await(are_on_disk(6000), WHOLE_MS);
	postgres_start(postgres);
	do
		cr_assert_eq(database_long(fleet.rows,
					   "SELECT count(*) FROM cursors WHERE value::bigint > (SELECT count(*) "
					   "FROM events)"),
			     0);
	while (database_long(fleet.rows, "SELECT count(*) FROM events") < 12000);
	await(database_long(fleet.rows, "SELECT count(*) FROM cursors WHERE value = '12000'"), WHOLE_MS);
	feed_free(feed);
}

/* The feed is asked for them, and the cursor passes none. */
Test(spool, what_the_disk_loses_is_asked_of_a_feed_with_a_cursor, .timeout = 120)
{
	struct feed *feed = start_numbered();
	const char *const remove[] = {"sh", "-c", suite_text("rm %s/base/spool-0/*.segment", suite_directory()), NULL};

	feed_send_text(feed, "{\"n\": 1}");
	await(database_long(fleet.rows, "SELECT count(*) FROM cursors WHERE value = '1'") == 1, WHOLE_MS);
	postgres_stop(postgres);
	send_numbered(feed, 2);
	await(are_on_disk(11999), WHOLE_MS);
	await(listener_metric(fleet.listeners[0], "wsonce_spool_away") > 1000, WHOLE_MS);
	cr_assert_eq(process_run(remove, SOON_MS), 0);
	postgres_start(postgres);
	await(strstr(feed_request(feed), "?from=1 "), WHOLE_MS, "%s", feed_request(feed));
	cr_assert_eq(database_long(fleet.rows, "SELECT value::bigint FROM cursors"), 1);
	feed_free(feed);
}

/* The row says what it would have said without the outage. */
Test(spool, a_row_keeps_its_source_and_its_time, .timeout = 120)
{
	start(1, NULL, "");
	postgres_stop(postgres);
	fleet_send(&fleet, 10);
	await(are_on_disk(10), WHOLE_MS);
	int64_t sent_s = time(NULL);
	kill_all();
	wait_pause_ms(2500); /* the test is about time */
	postgres_start(postgres);
	restart();
	fleet_wait_rows(&fleet, 10, WHOLE_MS);
	cr_assert_eq(database_long(fleet.rows, "select count(*) from events where received_at <= to_timestamp(%ld)",
				   (long)sent_s + 1),
		     10);
	cr_assert_eq(database_long(fleet.rows, "select count(*) from events where source = 'ws://127.0.0.1:%d/***'",
				   feed_port(fleet.feed)),
		     10, "%s", database_text(fleet.rows, "select min(source) from events"));
}

Test(spool, in_normal_operation_nothing_is_written, .timeout = 60)
{
	start(1, NULL, "--spool-after 10");
	fleet_send(&fleet, 2000);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_spooled_total"), 0);
	cr_assert_not(has_segments(0));
}

/* Returns how many events the first listener has written: at least the first ones up to this number, counted from its
 * start, are on disk or stored. */
static long written_so_far(void)
{
	return (long)listener_metric(fleet.listeners[0], "wsonce_spooled_total");
}

/* With --spool-after 0 each event is written before it is claimed: at whatever moment all are killed, written events
 * get a row. Postgres stores slowly, so that most have none when the listeners die. */
Test(spool, with_spool_after_0_what_was_written_outlives_a_kill_of_all, .timeout = 120)
{
	const unsigned int seed = 11;

	start(2, NULL, "--spool-after 0");
	database_slow_down(fleet.rows, 2);
	for (int round = 0; round < 5; round++) {
		long sure, first = fleet.sent;

		srand(seed + (unsigned int)round);
		fleet_send(&fleet, 500);
		await(written_so_far() >= 100, WHOLE_MS);
		for (int i = rand() % 40; i > 0; i--)
			fleet_send(&fleet, 10);
		sure = written_so_far();
		kill_all();
		restart();
		fleet_wait_ready(&fleet);
		await(database_long(fleet.rows,
				    "select count(*) from events where substr(event_id, 3)::int > %ld "
				    "and substr(event_id, 3)::int <= %ld",
				    first, first + sure) == sure,
		      WHOLE_MS, "seed %u, round %d: of %ld events that were written, %ld are there", seed, round, sure,
		      database_long(fleet.rows,
				    "select count(*) from events where substr(event_id, 3)::int > %ld "
				    "and substr(event_id, 3)::int <= %ld",
				    first, first + sure));
	}
	cr_assert_eq(database_long(fleet.rows, "select count(*) - count(distinct event_id) from events"), 0);
}

Test(spool, sigterm_without_postgres_leaves_the_events_in_the_spool, .timeout = 120)
{
	start(1, NULL, "--drain-timeout 1");
	postgres_stop(postgres);
	fleet_send(&fleet, 1000);
	await(listener_metric(fleet.listeners[0], "wsonce_in_flight") == 1000, WHOLE_MS);
	cr_assert_eq(listener_stop(fleet.listeners[0]), 0, "%s",
		     process_last_words(listener_process(fleet.listeners[0])));
	cr_assert(listener_has_logged(fleet.listeners[0],
				      "event=\"events left in the spool, to be fed at the next start\" events=1000"));
	postgres_start(postgres);
	restart();
	fleet_wait_ready(&fleet);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

/* The listener continues without the spool, logs that once, and uses it again when there is room. */
Test(spool, a_full_disk_is_told_and_done_without, .timeout = 120)
{
	char program[PATH_MAX] = "";

	cr_assert_gt(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
	const char *env[] = {suite_text("LD_PRELOAD=%s/full_disk.so", dirname(program)),
			     suite_text("WSONCE_FULL_DISK=%s", suite_path("full")),
			     "ASAN_OPTIONS=verify_asan_link_order=0", NULL};
	start(1, env, "");
	struct listener *l = fleet.listeners[0];
	postgres_stop(postgres);
	suite_file("full", "");
	fleet_send(&fleet, 100);
	await(listener_has_logged(l, "cannot write to the spool, events stay in memory only"), SOON_MS);
	fleet_send(&fleet, 100);
	await(listener_metric(l, "wsonce_in_flight") == 200, SOON_MS);
	cr_assert_eq(listener_metric(l, "wsonce_spooled_total"), 0);
	suite_remove(suite_path("full"));
	await(are_on_disk(200), 2 * SOON_MS);
	cr_assert_eq(listener_count_logged(l, "cannot write to the spool"), 1);
	postgres_start(postgres);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

static bool is_told(void)
{
	fleet_send(&fleet, 1);
	return strstr(run_on(fleet.rows, "status").output,
		      ": nothing is written to the spool: No space left on device\n");
}

Test(spool, status_says_that_nothing_is_written, .timeout = 120)
{
	char program[PATH_MAX] = "";

	cr_assert_gt(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
	const char *env[] = {suite_text("LD_PRELOAD=%s/full_disk.so", dirname(program)),
			     suite_text("WSONCE_FULL_DISK=%s", suite_file("full", "")),
			     "ASAN_OPTIONS=verify_asan_link_order=0", NULL};
	start(1, env, "--spool-after 0");
	await(is_told(), 2 * SOON_MS, "%s", run_on(fleet.rows, "status").output);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

/* As by LimitFSIZE= of a unit. */
Test(spool, a_file_that_may_not_grow_is_a_disk_that_is_full, .timeout = 120)
{
	struct rlimit size;

	start(1, NULL, "");
	kill_all();
	getrlimit(RLIMIT_FSIZE, &size);
	struct rlimit small = size;
	small.rlim_cur = 100000;
	setrlimit(RLIMIT_FSIZE, &small);
	restart();
	setrlimit(RLIMIT_FSIZE, &size);
	fleet_wait_ready(&fleet);
	struct listener *l = fleet.listeners[0];
	postgres_stop(postgres);
	fleet.payload = 600;
	fleet_send(&fleet, 500);
	await(listener_has_logged(l, "cannot write to the spool, events stay in memory only"), SOON_MS);
	postgres_start(postgres);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

/* Readable records are exported; foreign files stay. */
Test(spool, damaged_segments_are_exported_and_dropped_too, .timeout = 120)
{
	start(1, NULL, "--drain-timeout 1");
	postgres_stop(postgres);
	fleet_send(&fleet, 50);
	await(are_on_disk(50), WHOLE_MS);
	cr_assert_eq(listener_stop(fleet.listeners[0]), 0);
	const char *const damage[] = {"sh", "-c",
				      suite_text("cd %s; f=$(ls *.segment); printf x | dd of=$f bs=1 seek=200 "
						 "conv=notrunc 2>/dev/null; mv $f $f.bad; echo note >$f",
						 suite_path("base/spool-0")),
				      NULL};
	cr_assert_eq(process_run(damage, SOON_MS), 0);
	struct run run = run_in(NULL, suite_text("spool %s export", suite_path("base/spool-0")));
	cr_assert(run.status == 1 && strstr(run.errors, "damaged records in 1 places"), "%s", run.errors);
	postgres_start(postgres);
	run_expect(fleet.rows, 0, "replayed 49: persisted 49", "replay %s", suite_file("export", run.output));
	run = run_in(NULL, suite_text("spool %s drop", suite_path("base/spool-0")));
	cr_assert(strstr(run.output, "dropped 49 events in 1 segments"), "%s%s", run.output, run.errors);
	cr_assert(has_segments(0), "the note was removed");
}

Test(spool, a_file_with_another_name_is_told_of, .timeout = 60)
{
	struct run run;

	start(1, NULL, "");
	cr_assert_eq(listener_stop(fleet.listeners[0]), 0);
	suite_file("base/spool-0/7.segment", "wsspool1");
	run = run_in(NULL, suite_text("spool %s list", suite_path("base/spool-0")));
	cr_assert(run.status == 1 && strstr(run.errors, "7.segment does not have the name of a segment"), "%s",
		  run.errors);
	restart();
	cr_assert(wait_until(listener_has_logged(fleet.listeners[0], "name of a segment, and is left alone"), SOON_MS));
}

Test(spool, a_second_process_on_the_directory_is_refused, .timeout = 60)
{
	start(1, NULL, "");
	struct listener_options second = fleet.options;
	second.database = fleet.rows;
	second.source = fleet.source;
	second.spool = suite_path("base/spool-0");
	second.without_waiting = true;
	struct listener *l = listener_start(&second, NULL);
	cr_assert_eq(process_wait(listener_process(l), SOON_MS), 1);
	cr_assert(listener_has_logged(l, "another process uses it; give each listener a directory of its own"), "%s",
		  process_last_words(listener_process(l)));
}

/* On another machine, for example. */
Test(spool, what_is_exported_can_be_replayed_and_then_dropped, .timeout = 120)
{
	start(1, NULL, "--drain-timeout 1");
	postgres_stop(postgres);
	fleet_send(&fleet, 50);
	await(are_on_disk(50), WHOLE_MS);
	struct run run = run_in(NULL, suite_text("spool %s drop", suite_path("base/spool-0")));
	cr_assert_eq(run.status, 1, "a listener uses it");
	cr_assert_eq(listener_stop(fleet.listeners[0]), 0);
	run = run_in(NULL, suite_text("spool %s list", suite_path("base/spool-0")));
	cr_assert(run.status == 0 && strstr(run.output, "50 events in 1 segments, "), "%s%s", run.output, run.errors);
	run = run_in(NULL, suite_text("spool %s export", suite_path("base/spool-0")));
	cr_assert_eq(run.status, 0);
	postgres_start(postgres);
	run_expect(fleet.rows, 0, "replayed 50: persisted 50", "replay %s", suite_file("export", run.output));
	run = run_in(NULL, suite_text("spool %s drop", suite_path("base/spool-0")));
	cr_assert(run.status == 0 && strstr(run.output, "dropped 50 events"), "%s%s", run.output, run.errors);
	cr_assert_not(has_segments(0));
}

/* With the fleet's settings, whose pointers do not fit what a profile has read. */
Test(spool, events_of_a_profile_in_a_segment_are_replayed_with_their_source_and_time, .timeout = 120)
{
	struct feed *feed = feed_new();
	const char *
		settings = suite_file(
		       "settings.json",
		       suite_text("{\"sources\": [{\"name\": \"orders\", \"url\": \"%s\", \"rules\": [{\"action\": "
				  "\"event\", "
				  "\"id\": [[\"/n\"]], \"time\": \"/at\", \"time_unit\": \"s\", \"payload\": \"\"}]}]}",
				  feed_url(feed))),
	       *flags = suite_text("--config %s --id-pointer /id --time-pointer /at --max-age 1d", settings);

	start(1, NULL, suite_text("--drain-timeout 1 %s", flags));
	cr_assert(feed_wait_clients(feed, 1, SOON_MS));
	postgres_stop(postgres);
	for (int n = 0; n < 20; n++)
		feed_sendf(feed, "{\"n\":%d,\"at\":%ld}", n, time(NULL));
	await(are_on_disk(20), WHOLE_MS);
	cr_assert_eq(listener_stop(fleet.listeners[0]), 0);
	postgres_start(postgres);
	struct run run = run_in(NULL, suite_text("spool %s export", suite_path("base/spool-0")));
	run_expect(fleet.rows, 0, "persisted 20,", "replay %s/base/spool-0/%020d.segment %s", suite_directory(), 1,
		   flags);
	cr_assert_str_eq(database_text(fleet.rows,
				       "SELECT count(*) FROM events WHERE source = 'orders' AND event_time > "
				       "now() - interval '1 day'"),
			 "20");
	/* So are its lines, on another machine. */
	database_exec(fleet.rows, "DELETE FROM events");
	run_expect(fleet.rows, 0, "persisted 20,", "replay %s %s", suite_file("export", run.output), flags);
	cr_assert_str_eq(database_text(fleet.rows, "SELECT count(*) FROM events WHERE source = 'orders' AND event_time "
						   "> now() - interval '1 day'"),
			 "20");
	feed_free(feed);
}

/* The token dies with the listener, so another process cannot resume. */
Test(spool, what_a_feed_sends_again_only_to_the_same_process_is_written, .timeout = 120)
{
	struct feed *feed = feed_new();
	const char *url = feed_url(feed);

	start(1, NULL,
	      suite_text("--config %s",
			 suite_file("settings.json",
				    suite_text("{\"sources\": [{\"name\": \"orders\", \"url\": \"%s\", \"url_resume\": "
					       "\"%s?from=${token}\", \"rules\": [{\"when\": {\"/token\": {\"exists\": "
					       "true}}, \"capture\": {\"token\": \"/token\"}}, {\"action\": \"event\", "
					       "\"id\": [[\"/n\"]], \"ack\": {\"ack\": \"${/n}\"}}]}]}",
					       url, url))));
	cr_assert(feed_wait_clients(feed, 1, SOON_MS));
	feed_send_text(feed, "{\"token\":\"t\"}");
	postgres_stop(postgres);
	for (int n = 1; n <= 20; n++)
		feed_sendf(feed, "{\"n\":%d}", n);
	await(are_on_disk(20), SOON_MS);
	cr_assert_not(feed_has_heard(feed, "ack"));
	kill_all();
	postgres_start(postgres);
	restart();
	fleet_wait_rows(&fleet, 20, WHOLE_MS);
	feed_free(feed);
}

static void send_orders(struct feed *feed)
{
	for (int n = 1; n <= 12000; n++)
		feed_sendf(feed, "{\"n\": %d, \"text\": \"%0400d\"}", n, 0);
}

/* Events that wait for acks stay in memory. The other feed must still be read, so that its events reach the disk. */
Test(spool, a_feed_with_acks_leaves_room_for_one_without, .timeout = 120)
{
	struct feed *feed = feed_new();

	start(1, NULL,
	      suite_text("--max-inflight-bytes 2MiB --config %s",
			 suite_file("settings.json",
				    suite_text("{\"sources\": [{\"name\": \"orders\", \"url\": \"%s\", \"rules\": "
					       "[{\"action\": \"event\", \"id\": [[\"/n\"]], \"ack\": {\"ack\": "
					       "\"${/n}\"}}]}]}",
					       feed_url(feed)))));
	cr_assert(feed_wait_clients(feed, 1, SOON_MS));
	postgres_stop(postgres);
	send_orders(feed);
	await(listener_metric(fleet.listeners[0], "wsonce_ingest_paused") == 1, SOON_MS);
	fleet.payload = 600;
	send_without_waiting(20000);
	await(are_on_disk(20000), WHOLE_MS, "%g of 20000 events are on disk",
	      listener_metric(fleet.listeners[0], "wsonce_spooled_total"));
	cr_assert_not(feed_has_heard(feed, "ack"));
	postgres_start(postgres);
	/* As such a feed does, it sends again what has no ack, since the listener may have dialled again. */
	while (!wait_until(fleet_rows(&fleet) == 20000 + 12000, 3000))
		send_orders(feed);
	feed_free(feed);
}

/* It would be the same disk. */
Test(spool, it_is_refused_with_sqlite)
{
	run_expect_refusal_in(NULL, "listen --store sqlite:///tmp/x.db --spool /tmp/x --ingest 127.0.0.1:1",
			      "--spool: needs Postgres; it does not work with --store sqlite://");
}
