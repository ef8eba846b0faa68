/* wsonce replay: feeds the lines of a file as if they came from a feed, and resumes after a kill. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 20000
#define END_MS     60000
#define SLOW_MS    3 /* per row: 15 s for 10,000 with two connections */

/* Expects a row with its own payload for each of the count events, and no other row. */
static void must_be_whole(long count)
{
	cr_assert_eq(bench_rows(), count);
	cr_assert_eq(bench_count("events WHERE event_id = 'e-' || (payload->>'n')"), count);
	cr_assert_eq(bench_count("dead_letters"), 0);
}

static long checkpoint_offset(const char *path)
{
	json_t *root = json_load_file(path, 0, NULL);
	return root ? (long)json_integer_value(json_object_get(root, "offset")) : -1;
}

Test(replay, tells_what_was_persisted_duplicate_and_rejected, .init = bench_open)
{
	char *path =
		suite_file("lines", "{\"event_id\":\"a\",\"payload\":1.50}\n\n{\"event_id\":\"b\"}\r\n"
				    "{\"event_id\":\"a\"}\nno event\n{\"event_id\":\"c\",\"payload\":\"\\u0000\"}\n"
				    "{\"event_id\":\"last\"}");

	run_expect(db, 1, "replayed 6: persisted 3, duplicates 1, rejected 2\n", "replay %s", path);
	cr_assert_eq(bench_rows(), 3);
	cr_assert_eq(bench_count("events WHERE payload::text = '1.50'"), 1);
	cr_assert_eq(bench_count("dead_letters WHERE raw = 'no event' AND seen = 1 AND digest = sha256('no event')"),
		     1);
	run_expect(db, 1, "\"persisted\":0,\n\"duplicates\":4,\n\"rejected\":2,", "replay %s --json", path);
	cr_assert_eq(bench_count("dead_letters"), 2);
}

/* Whatever the pointers and --max-message. Other messages have the time and the name of replay. */
Test(replay, a_line_of_an_export_keeps_its_time_and_source, .init = bench_open)
{
	char *path = suite_file(
		"rows", suite_text("{\"wsonce_row\":7,\"received_at\":\"2026-01-02T03:04:05.678901Z\",\"event_time\":"
				   "\"2026-01-02T03:04:05Z\",\"source\":\"a\\\"b\",\"event_id\":\"a\",\"event_type\":"
				   "\"t\",\"payload\":{\"n\":1.50}}\n"
				   "{\"wsonce_row\":8,\"received_at\":null,\"processed_at\":\"2026-01-02T03:04:06Z\","
				   "\"source\":null,\"event_id\":\"b\",\"event_type\":\"\",\"payload\":\"%02000d\"}\n"
				   "{\"id\":\"c\",\"wsonce_row\":9,\"received_at\":\"2026-01-02T03:04:05.678901Z\"}\n",
				   0));

	run_expect(db, 0, "persisted 3,", "replay %s --id-pointer /id --max-message 1KiB", path);
	cr_assert_eq(
		bench_count("events WHERE event_id = 'a' AND event_type = 't' AND payload::text = '{\"n\": 1.50}' AND "
			    "source = 'a\"b' AND received_at = '2026-01-02 03:04:05.678901Z' AND event_time = "
			    "'2026-01-02 03:04:05Z'"),
		1);
	cr_assert_eq(bench_count("events WHERE event_id = 'b' AND source IS NULL AND event_time IS NULL AND "
				 "received_at = '2026-01-02 03:04:06Z'"),
		     1);
	cr_assert_eq(bench_count("events WHERE event_id = 'c' AND source = 'replay' AND received_at > now() - interval "
				 "'1 h'"),
		     1);
}

/* The first 4,096 bytes are not enough to identify a file: everything before the offset must be what was replayed. */
Test(replay, checkpoint_is_of_one_database_one_consumer_and_one_file, .init = bench_open)
{
	char *path = fleet_file("events", 1000), *checkpoint = suite_path("checkpoint"), *command;
	struct database *other = database_new();

	run_expect(db, 0, "persisted 1000,", "replay %s --checkpoint %s", path, checkpoint);
	run_expect_error(other, 1, "another database", "replay %s --checkpoint %s", path, checkpoint);
	run_expect_error(db, 1, "another consumer", "replay %s --checkpoint %s --consumer c", path, checkpoint);
	cr_assert_eq(database_long(other, "SELECT count(*) FROM events"), 0);
	run_expect(db, 0, "replayed 0:", "replay %s --checkpoint %s", path, checkpoint);
	command = suite_text("sed -i '$ s/e-/f-/' %s", path);
	cr_assert_eq(system(command), 0);
	run_expect_error(db, 1, "another file", "replay %s --checkpoint %s", path, checkpoint);
	run_expect_error(db, 2, "the file to replay", "replay %s --checkpoint %s", path, path);
	run_expect_error(other, 1, "--checkpoint: cannot write /nowhere/x: No such file",
			 "replay %s --checkpoint /nowhere/x", path);
	cr_assert_eq(database_long(other, "SELECT count(*) FROM events"), 0); /* it failed before it fed a line */
}

/* According to the marks of the first run, all is stored, but the table is empty. */
Test(replay, asks_postgres_and_not_the_marks_of_an_earlier_run, .init = bench_open)
{
	char *path = fleet_file("events", 50);

	run_expect(db, 0, "persisted 50, duplicates 0, rejected 0", "replay %s", path);
	database_exec(db, "DELETE FROM events");
	run_expect(db, 0, "persisted 50, duplicates 0, rejected 0", "replay %s", path);
	run_expect(db, 0, "persisted 0, duplicates 50, rejected 0", "replay %s", path);
	must_be_whole(50);
}

Test(replay, a_line_over_max_message_is_told_and_left_out, .init = bench_open)
{
	char *path = suite_path("long");
	FILE *out = fopen(path, "we");
	struct run run;

	fprintf(out,
		"{\"event_id\":\"long\",\"payload\":\"%0200000d\"}\r\n{\"event_id\":\"short\"}\n%065536d\n%065537d", 0,
		0, 0);
	cr_assert_eq(fclose(out), 0);
	run = run_on(db, "replay %s --max-message 64KiB", path);
	cr_assert_eq(run.status, 1);
	cr_assert(strstr(run.output, "replayed 2: persisted 1, duplicates 0, rejected 1"), "%s", run.output);
	cr_assert(strstr(run.errors, "/long: left out the line at byte 0, which is longer than --max-message (65536 "),
		  "%s", run.errors);
	cr_assert(strstr(run.errors, "/long: left out the line at byte 265592, which"), "%s", run.errors);
	cr_assert_eq(bench_count("dead_letters WHERE length(raw) = 65536"), 1);
	run_expect_error(db, 1, "/long: left out the line at byte 265592, which",
			 "audit --expected %s --max-message 64KiB", path);
}

Test(replay, killed_again_and_again_it_goes_on_from_its_checkpoint_and_loses_and_doubles_nothing, .init = bench_open,
     .timeout = 300)
{
	char *path = fleet_file("events", 20000), *checkpoint = suite_path("checkpoint");
	long last = -1;

	database_slow_down(db, SLOW_MS);
	for (int i = 0; i < 2; i++) {
		struct process *p =
			run_start_on(db, "replay %s --checkpoint %s --batch-max 100 --claim-ttl 1", path, checkpoint);

		await(checkpoint_offset(checkpoint) > last, END_MS, "%s", process_last_words(p));
		process_signal(p, SIGKILL);
		cr_assert_eq(process_wait(p, END_MS), 128 + SIGKILL);
		last = checkpoint_offset(checkpoint);
	}
	database_slow_down(db, 0);
	cr_assert_lt(bench_rows(), 20000, "it was not killed in the middle");
	run_expect(db, 0, "went on from byte ", "replay %s --checkpoint %s", path, checkpoint);
	must_be_whole(20000);
	run_expect(db, 0, "replayed 0: ", "replay %s --checkpoint %s", path, checkpoint);
}

/* For example, after the restore of an older dump, which has another epoch. */
Test(replay, a_checkpoint_is_of_one_history_of_the_database, .init = bench_open)
{
	char *path = fleet_file("events", 1000), *checkpoint = suite_path("checkpoint");

	run_expect(db, 0, "persisted 1000,", "replay %s --checkpoint %s", path, checkpoint);
	run_expect(db, 0, "replayed 0:", "replay %s --checkpoint %s", path, checkpoint);
	database_exec(db, "TRUNCATE events; UPDATE wsonce_epoch SET epoch = epoch");
	run_expect(db, 0, "persisted 1000,", "replay %s --checkpoint %s", path, checkpoint);
	run_expect(db, 0, "replayed 0:", "replay %s --checkpoint %s", path, checkpoint);
}

Test(replay, what_the_database_loses_meanwhile_is_told, .init = bench_open)
{
	char *path = fleet_file("events", 1000);
	struct process *p = run_start_on(db, "replay %s --rate 500", path);

	await(bench_rows() > 100, END_MS, "%s", process_last_words(p));
	database_exec(db, "TRUNCATE events; UPDATE wsonce_epoch SET epoch = epoch");
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_errors(p), "may have lost commits meanwhile"), "%s", process_last_words(p));
	run_expect(db, 0, "replayed 1000:", "replay %s", path);
	must_be_whole(1000);
}

Test(replay, a_checkpoint_is_private_and_follows_no_link, .init = bench_open)
{
	char *path = fleet_file("events", 10), *checkpoint = suite_path("checkpoint"),
	     *part = suite_path("checkpoint.part");
	char *victim = suite_file("victim", "untouched");
	struct stat seen;

	cr_assert_eq(symlink(victim, part), 0);
	run_expect(db, 0, "", "replay %s --checkpoint %s", path, checkpoint);
	cr_assert_eq(lstat(checkpoint, &seen), 0);
	cr_assert_eq(seen.st_mode, S_IFREG | 0600, "mode %o", seen.st_mode);
	cr_assert_eq(stat(victim, &seen), 0);
	cr_assert_eq(seen.st_size, 9, "the victim has %ld bytes", (long)seen.st_size);
}

Test(replay, everything_before_the_checkpoint_is_settled, .init = bench_open)
{
	char *path = fleet_file("events", 10000), *checkpoint = suite_path("checkpoint");

	database_slow_down(db, SLOW_MS);
	struct process *p = run_start_on(db, "replay %s --checkpoint %s --batch-max 100", path, checkpoint);
	await(checkpoint_offset(checkpoint) > 0, END_MS, "%s", process_last_words(p));
	process_signal(p, SIGKILL);
	cr_assert_eq(process_wait(p, END_MS), 128 + SIGKILL);
	FILE *in = fopen(path, "re");
	long settled = 0, offset = checkpoint_offset(checkpoint);
	for (long at = 0; at < offset; at++)
		settled += fgetc(in) == '\n';
	fclose(in);
	cr_assert_gt(settled, 0);
	cr_assert_eq(bench_count("events WHERE (payload->>'n')::int <= %ld", settled), settled);
}

/* What is in flight, a third of the file, is stored before it ends. */
Test(replay, interrupted_it_ends_with_status_1_and_can_be_gone_on_with, .init = bench_open)
{
	char *path = fleet_file("events", 3000), *checkpoint = suite_path("checkpoint");

	database_slow_down(db, SLOW_MS);
	struct process *p = run_start_on(
		db, "replay %s --checkpoint %s --batch-max 100 --max-inflight-bytes 64KiB --json", path, checkpoint);
	await(bench_rows() > 0, SETTLED_MS);
	process_signal(p, SIGINT);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	char *output = process_output(p);
	json_t *root = json_loads(output, 0, NULL);
	cr_assert(json_is_true(json_object_get(root, "interrupted")), "%s", output);
	cr_assert_eq(json_integer_value(json_object_get(root, "settled_offset")), checkpoint_offset(checkpoint));
	cr_assert_eq(json_integer_value(json_object_get(root, "persisted")), bench_rows());
	cr_assert_lt(bench_rows(), 3000);
	database_slow_down(db, 0);
	run_expect(db, 0, NULL, "replay %s --checkpoint %s", path, checkpoint);
	must_be_whole(3000);
}

/* Without Redis nothing wakes it when there is room again. */
Test(replay, with_little_memory_it_goes_on_at_once, .init = bench_open)
{
	char *path = fleet_file("events", 2000);
	int64_t begin = wait_now_ms();

	run_expect(db, 0, NULL, "replay %s --redis none --max-inflight-bytes 8KiB", path);
	cr_assert_lt(wait_now_ms() - begin, wait_stretch_ms(6000));
	must_be_whole(2000);
}

/* Another instance holds the first event for a while. */
Test(replay, lines_behind_one_that_is_held_are_stored_and_the_checkpoint_stays_before_it, .init = bench_open)
{
	char *path = fleet_file("events", 1000), *checkpoint = suite_path("checkpoint");

	claims_put(redisd_shared(), "e-1", "somebody.else@1", 0);
	struct process *p = run_start_on(db, "replay %s --max-inflight-bytes 64KiB --checkpoint %s", path, checkpoint);
	await(bench_rows() == 999, SETTLED_MS, "%ld rows: %s", bench_rows(), process_last_words(p));
	wait_pause_ms(600);
	cr_assert_eq(checkpoint_offset(checkpoint), 0);
	claims_put(redisd_shared(), "e-1", "somebody.else@1", 1);
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
	cr_assert_gt(checkpoint_offset(checkpoint), 0);
	must_be_whole(1000);
}

Test(replay, a_checkpoint_of_another_file_is_refused_and_one_of_a_file_that_has_grown_is_not, .init = bench_open)
{
	char *path = fleet_file("events", 100), *other = suite_path("other"), *checkpoint = suite_path("checkpoint");

	run_expect(db, 0, "persisted 100", "replay %s --checkpoint %s", path, checkpoint);
	FILE *out = fopen(other, "we");
	fprintf(out, "%010000d\n", 0);
	fclose(out);
	run_expect(db, 1, NULL, "replay %s --checkpoint %s", other, checkpoint);
	cr_assert_eq(bench_count("dead_letters"), 0);
	out = fopen(path, "ae");
	fprintf(out, "{\"event_id\":\"e-101\",\"payload\":{\"n\":101}}\n");
	fclose(out);
	run_expect(db, 0, "replayed 1: persisted 1", "replay %s --checkpoint %s", path, checkpoint);
	suite_file("checkpoint", "{\"offset\": -1}");
	run_expect(db, 1, NULL, "replay %s --checkpoint %s", path, checkpoint);
	must_be_whole(101);
}

static void append(const char *path, const char *text)
{
	FILE *out = fopen(path, "ae");

	fputs(text, out);
	cr_assert_eq(fclose(out), 0);
}

Test(replay, a_line_that_is_still_being_written_is_not_lost_to_the_checkpoint, .init = bench_open)
{
	char *path = suite_file("growing", "{\"event_id\":\"one\"}\n{\"event_id\":\"half"),
	     *checkpoint = suite_path("checkpoint");

	run_expect(db, 1, "replayed 2: persisted 1, duplicates 0, rejected 1", "replay %s --checkpoint %s", path,
		   checkpoint);
	cr_assert_eq(checkpoint_offset(checkpoint), 19);
	append(path, "-and-half\"}");
	run_expect(db, 0, "replayed 1: persisted 1, duplicates 0, rejected 0", "replay %s --checkpoint %s", path,
		   checkpoint);
	append(path, "\n");
	run_expect(db, 0, "replayed 1: persisted 0, duplicates 1, rejected 0", "replay %s --checkpoint %s", path,
		   checkpoint);
	run_expect(db, 0, "replayed 0: ", "replay %s --checkpoint %s", path, checkpoint);
	cr_assert_eq(bench_count("events WHERE event_id IN ('one', 'half-and-half')"), 2);
}

/* At the last write, all events are stored and only marks are pending. */
Test(replay, a_checkpoint_that_cannot_be_written_is_status_1_also_at_the_very_end, .init = bench_open)
{
	struct redisd *redis = redisd_new();
	struct database *lock = fleet_lock(db);
	char *path = fleet_file("events", 10), *folder = suite_path("folder");

	cr_assert_eq(mkdir(folder, 0700), 0);
	struct process *p = run_start_on(db, "replay %s --redis %s --redis-timeout 3 --checkpoint %s/checkpoint", path,
					 redisd_url(redis), folder);

	await(bench_count("pg_locks WHERE NOT granted AND database = "
			  "(SELECT oid FROM pg_database WHERE datname = current_database())") > 0,
	      SETTLED_MS);
	suite_remove(folder);
	redisd_pause(redis);
	fleet_unlock(lock);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	must_be_whole(10);
}

Test(replay, a_line_without_an_end_does_not_keep_it_from_being_interrupted, .init = bench_open)
{
	struct process *p = run_start_on(db, "replay /dev/zero");

	await(bench_count("wsonce_listeners") > 0, SETTLED_MS);
	process_signal(p, SIGTERM);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
}

Test(replay, the_rate_is_kept_to, .init = bench_open)
{
	char *path = fleet_file("events", 300);
	int64_t begin = wait_now_ms();

	run_expect(db, 0, "persisted 300", "replay %s --rate 200/s", path);
	cr_assert_gt(wait_now_ms() - begin, 1400);
}

Test(replay, the_rate_is_kept_to_also_after_a_pipe_brought_nothing_for_a_while, .init = bench_open)
{
	char *fifo = suite_path("fifo");

	cr_assert_eq(mkfifo(fifo, 0666), 0);
	int fd = open(fifo, O_RDWR | O_CLOEXEC);
	struct process *p = run_start_on(db, "replay %s --rate 100/s", fifo);
	await(bench_count("wsonce_listeners") > 0, SETTLED_MS);
	wait_pause_ms(2000);
	int64_t begin = wait_now_ms();
	for (int i = 0; i < 150; i++)
		dprintf(fd, "{\"event_id\":\"e-%d\"}\n", i);
	close(fd);
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
	cr_assert_gt(wait_now_ms() - begin, 1200);
	cr_assert_eq(bench_rows(), 150);
}

Test(replay, beside_a_fleet_that_gets_the_same_events_each_is_stored_once, .init = bench_open, .timeout = 300)
{
	char *path = fleet_file("events", 10000);
	struct fleet fleet;

	fleet_start(&fleet, 3, db, NULL, NULL);
	struct process *p = run_start_on(db, "replay %s --json", path);
	fleet_send(&fleet, 10000);
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
	fleet_wait_rows(&fleet, 10000, SETTLED_MS);
	await(fleet_metric(&fleet, "wsonce_in_flight") == 0, SETTLED_MS);
	must_be_whole(10000);
	char *output = process_output(p);
	json_t *root = json_loads(output, 0, NULL);
	cr_assert_eq((long)fleet_metric(&fleet, "wsonce_persisted_total") +
			     (long)json_integer_value(json_object_get(root, "persisted")),
		     10000, "an event was stored by two");
}

/* The database may have lost rows that were stored before. */
Test(replay, a_database_that_crashes_is_waited_for, .timeout = 300)
{
	struct postgres *pg = postgres_new();
	char *path = fleet_file("events", 5000);

	db = postgres_database(pg);
	run_expect(db, 0, NULL, "migrate");
	struct process *p = run_start_on(db, "replay %s --rate 2500/s", path);
	await(bench_rows() > 0, SETTLED_MS);
	postgres_kill(pg);
	postgres_start(pg);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_errors(p), "may have lost commits meanwhile"), "%s", process_last_words(p));
	run_expect(db, 0, "replayed 5000:", "replay %s", path);
	must_be_whole(5000);
}

Test(replay, interrupted_while_the_database_hangs_it_ends_after_the_drain_timeout_and_knows_where_it_was,
     .timeout = 300)
{
	struct postgres *pg = postgres_new();
	char *path = fleet_file("events", 5000), *checkpoint = suite_path("checkpoint");

	db = postgres_database(pg);
	run_expect(db, 0, NULL, "migrate");
	database_slow_down(db, SLOW_MS);
	struct process *p =
		run_start_on(db, "replay %s --batch-max 100 --drain-timeout 0.3 --checkpoint %s", path, checkpoint);
	await(checkpoint_offset(checkpoint) > 0, SETTLED_MS, "%s", process_last_words(p));
	postgres_pause(pg);
	process_signal(p, SIGTERM);
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	postgres_resume(pg);
	database_slow_down(db, 0);
	run_expect(db, 0, "went on from byte", "replay %s --checkpoint %s", path, checkpoint);
	must_be_whole(5000);
}
