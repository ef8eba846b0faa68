/* wsonce record: lines for people, and segments, which try --frames and replay read as they read lines. */
#include "support.h"

#include "bench.h"

#define SOON_MS 10000
#define ROWS \
	"SELECT string_agg(concat(event_id, ' ', event_type, ' ', payload), ',' ORDER BY event_id) || " \
	"(SELECT string_agg(reason, ',' ORDER BY reason) FROM dead_letters) FROM events"

static struct feed *feed;

static const char *program(void)
{
	return getenv("WSONCE_TEST_BIN") ? getenv("WSONCE_TEST_BIN") : "build/wsonce";
}

static int run_sh(const char *script)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	return process_run(argv, SOON_MS);
}

static char *profile(void)
{
	return suite_file("profile.json",
			  suite_text("{\"name\": \"mine\", \"url\": \"%s\", \"rules\": [{\"name\": \"r\", \"action\": "
				     "\"event\", \"id\": [[\"/event_id\"]], \"payload\": \"/payload\"}]}",
				     feed_url(feed)));
}

/* Starts `wsonce record` on the feed, after these words of the shell. */
static struct process *start_after(const char *shell, const char *words)
{
	const char *const argv[] = {
		"sh", "-c", suite_text("%s exec %s record --profile %s %s", shell, program(), profile(), words), NULL};

	return process_start_argv(argv, NULL);
}

static struct process *start(const char *words)
{
	return start_after("", words);
}

static void end(struct process *p)
{
	cr_assert_eq(process_wait(p, SOON_MS), 0, "%s", process_last_words(p));
}

/* Messages of all kinds, one with newlines between its tokens. */
static void send_messages(int from, int to)
{
	for (int i = from; i < to; i++)
		feed_sendf(feed, "{\"event_id\":\"e-%d\",\n \"event_type\":\"t\",\r\n \"payload\":{\"n\":%d}}", i, i);
	feed_send_text(feed, "no event");
	feed_sendf(feed, "{\"event_id\":\"e-%d\",\"payload\":1}", from);
}

/* The only segment of a directory. */
static char *segment_in(const char *dir)
{
	struct run run = run_in(NULL, suite_text("spool %s list", dir));

	cr_assert(run.status == 0 && strstr(run.output, " in 1 segments"), "%s%s", run.output, run.errors);
	return suite_text("%s/%.28s", dir, run.output);
}

/* A recording of messages e-0 to e-(n - 1) and two more, in one segment. */
static char *record(int n)
{
	char *dir = suite_path("dir-%d", suite_number());
	struct process *p = start(suite_text("--segments --messages %d %s", n + 2, dir));

	cr_assert(feed_wait_clients(feed, 1, SOON_MS), "%s", process_last_words(p));
	send_messages(0, n);
	end(p);
	return segment_in(dir);
}

static void open_feed(void)
{
	bench_open();
	feed = feed_new();
}

/* Writes `with` into a copy of the file at an offset, or cuts it there if that is NULL. */
static char *change(const char *path, long at, const char *with)
{
	char *copy = suite_path("copy-%d", suite_number());

	cr_assert_eq(run_sh(suite_text("cp %s %s", path, copy)), 0);
	FILE *file = fopen(copy, "r+e");
	cr_assert(with ? fseek(file, at, SEEK_SET) == 0 && fputs(with, file) >= 0 : truncate(copy, at) == 0);
	cr_assert_eq(fclose(file), 0);
	return copy;
}

static long bytes_of(const char *path)
{
	struct stat seen;

	cr_assert_eq(stat(path, &seen), 0);
	return seen.st_size;
}

/* The rows of a replay into empty tables. */
static char *rows_of(const char *path)
{
	database_exec(db, "DELETE FROM events; DELETE FROM dead_letters");
	run_expect(db, 1, "replayed 102: persisted 100, duplicates 1, rejected 1", "replay %s", path);
	return database_text(db, ROWS);
}

Test(recording, segments_replay_into_the_rows_of_lines, .init = open_feed, .timeout = 60)
{
	char *lines = suite_path("lines"), *dir = suite_path("dir"), *fifo = suite_path("fifo"), *segment, *rows,
	     *frames;
	struct process *to_lines = start(suite_text("--messages 102 %s", lines)),
		       *to_segments = start(suite_text("--messages 102 --segments %s", dir));

	cr_assert(feed_wait_clients(feed, 2, SOON_MS));
	send_messages(0, 100);
	end(to_lines);
	end(to_segments);
	segment = segment_in(dir);
	cr_assert_eq(run_sh(suite_text("%s spool %s export | cmp - %s", program(), dir, lines)), 0);
	rows = rows_of(lines);
	cr_assert(strstr(rows, "e-99 t "), "%s", rows);
	cr_assert_str_eq(rows_of(segment), rows);
	cr_assert_eq(run_sh(suite_text("mkfifo %s && { cat %s >%s & }", fifo, segment, fifo)), 0);
	cr_assert_str_eq(rows_of(fifo), rows);

	database_exec(db, "DELETE FROM events WHERE event_id LIKE '%%7'");
	run_expect(db, 1, "resubmitted 10: persisted 10,", "audit --expected %s --resubmit", segment);
	cr_assert_eq(bench_rows(), 100);

	frames = run_in(NULL, suite_text("try --profile %s --frames %s", profile(), lines)).output;
	cr_assert(strstr(frames, "\"unique_events\": 100"), "%s", frames);
	cr_assert_str_eq(run_in(NULL, suite_text("try --profile %s --frames %s", profile(), segment)).output, frames);
}

Test(recording, frames_print_no_command_to_a_terminal, .init = open_feed)
{
	const char *frames = suite_file("frames", "{\"event_id\":\"\xc2\x9b\x32J\"}\n");
	struct run run = run_in(NULL, suite_text("try --profile %s --frames %s", profile(), frames));

	cr_assert(strstr(run.output, "\\u009b2J") && !strstr(run.output, "\xc2\x9b"), "%s", run.output);
}

/* A feed cannot choose the source and the time of its rows. */
Test(recording, a_message_that_looks_like_a_line_of_an_export_is_a_message, .init = open_feed, .timeout = 60)
{
	char *dir = suite_path("dir"), *lines = suite_path("lines");
	struct process *p = start(suite_text("--segments --messages 1 %s", dir)),
		       *to_lines = start(suite_text("--messages 1 %s", lines));

	cr_assert(feed_wait_clients(feed, 2, SOON_MS));
	feed_sendf(feed, "{\"wsonce_row\":1,\"source\":\"bank\",\"received_at\":\"2026-01-02T03:04:05Z\",\"event_id\":"
			 "\"e\",\"event_type\":\"\",\"payload\":1}");
	end(p);
	end(to_lines);
	run_expect(db, 0, "persisted 1,", "replay %s", segment_in(dir));
	cr_assert_eq(bench_count("events WHERE source <> 'bank' AND received_at > '2026-02-01Z'"), 1);
	database_exec(db, "DELETE FROM events");
	run_expect(db, 0, "persisted 1,", "replay %s", lines);
	cr_assert_eq(bench_count("events WHERE source <> 'bank' AND received_at > '2026-02-01Z'"), 1);
}

Test(recording, a_message_that_begins_as_another_kind_of_file_is_a_message, .init = open_feed, .timeout = 60)
{
	static const char *const firsts[] = {"wsspool1 of 48 bytes, which is the length of a head", "\x1f\x8b\x08"};

	for (int i = 0; i < 2; i++) {
		char *lines = suite_path(i ? "lines-1" : "lines-0");
		struct process *p = start(suite_text("--messages 1 %s", lines));

		cr_assert(feed_wait_clients(feed, 1, SOON_MS));
		feed_send(feed, 2, true, firsts[i], strlen(firsts[i]));
		end(p);
		run_expect(db, 1, "rejected 1", "replay %s", lines);
	}
}

/* As of a recorder that was killed, or that is still at work. */
Test(recording, a_torn_segment_replays_up_to_its_end_and_on_from_there, .init = open_feed, .timeout = 60)
{
	char *whole = record(100), *torn = change(whole, bytes_of(whole) / 2, NULL), *at = suite_path("checkpoint");

	run_expect_error(db, 0, ": its last record is incomplete, and was left out\n", "replay %s --checkpoint %s",
			 torn, at);
	cr_assert(bench_rows() > 40 && bench_rows() < 60, "%ld rows", bench_rows());
	run_expect(db, 1, "went on from byte ", "replay %s --checkpoint %s", whole, at);
	cr_assert_eq(bench_rows(), 100);
	run_expect(db, 0, "replayed 0: ", "replay %s --checkpoint %s", whole, at);
}

Test(recording, an_odd_file_is_one_sentence, .init = open_feed, .timeout = 60)
{
	char *whole = record(100), *damaged = change(whole, bytes_of(whole) / 2, "?");
	const struct {
		const char *path, *said;
	} odd[] = {
		{change(whole, 20, NULL), ": is a segment that ends within its head\n"},
		{change(whole, 10, "?"), ": is a segment whose head is damaged\n"},
		{suite_directory(), ": is a folder\n"},
		{suite_file("packed", "\x28\xb5\x2f\xfd"), ": is compressed by zstd: give the output of zstdcat\n"},
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		struct run run = run_on(db, "replay %s --log-level error", odd[i].path);

		cr_assert(run.status == 1 && run_is_one_line(run.errors) && strstr(run.errors, odd[i].said), "%s: %s",
			  odd[i].said, run.errors);
		run = run_in(NULL, suite_text("try --profile %s --frames %s", profile(), odd[i].path));
		cr_assert(run.status == 1 && !*run.output && strstr(run.errors, odd[i].said), "%s: %s%s", odd[i].said,
			  run.output, run.errors);
	}
	run_expect(db, 0, "replayed 0: ", "replay %s", suite_file("empty", ""));
	run_expect(db, 0, "replayed 0: ", "replay %s", change(whole, 48, NULL));
	run_expect_error(db, 1, ": has damaged records in 1 places, which were skipped\n", "replay %s", damaged);
	cr_assert_eq(bench_rows(), 99);
	run_expect_error(db, 1, ": has damaged records in 1 places, which were skipped\n", "audit --expected %s",
			 damaged);
	/* a length of 255 MiB, in bytes 8 to 11 of the first record */
	run_expect_error(db, 1, ": has damaged records in 1 places, which were skipped\n", "replay %s",
			 change(whole, 48 + 8, "\xff\xff\xef\x0f"));
}

Test(recording, a_record_over_max_message_is_told_and_left_out, .init = open_feed, .timeout = 60)
{
	char *dir = suite_path("dir");
	struct process *p = start(suite_text("--segments --messages 1 %s", dir));

	cr_assert(feed_wait_clients(feed, 1, SOON_MS));
	feed_sendf(feed, "{\"event_id\":\"long\",\"payload\":\"%0200000d\"}", 0);
	end(p);
	run_expect_error(db, 1, ": left out the line at byte 48, which", "replay %s --max-message 64KiB",
			 segment_in(dir));
	run_expect(db, 0, "persisted 1,", "replay %s", segment_in(dir));
}

Test(recording, it_goes_on_in_a_directory_with_a_segment_for_each_time, .init = open_feed, .timeout = 60)
{
	char *dir = suite_path("dir");
	struct process *p;
	struct run run;

	for (int i = 0; i < 2; i++) {
		p = start(suite_text("--segments --rotate 300ms %s", dir));
		cr_assert(feed_wait_clients(feed, 1, SOON_MS));
		await((send_messages(0, 1), run_sh(suite_text("[ $(ls %s | wc -l) -gt 3 ]", dir)) == 0), SOON_MS);
		run = run_in(NULL, suite_text("spool %s drop", dir));
		cr_assert(run.status == 1 && strstr(run.errors, ": another process uses it\n"), "%s", run.errors);
		run = run_in(NULL, suite_text("record --profile %s --segments %s", profile(), dir));
		cr_assert(run.status == 1 && strstr(run.errors, ": another process uses it\n"), "%s", run.errors);
		process_signal(p, SIGTERM);
		end(p);
	}
	run = run_in(NULL, suite_text("spool %s export", dir));
	cr_assert_eq(run.status, 0, "%s", run.errors);
	run_expect(db, 1, "persisted 1, ", "replay %s", suite_file("export", run.output));
	run = run_in(NULL, "record --feed kraken --rotate 1h x");
	cr_assert(run.status == 2 && strstr(run.errors, "--rotate goes with --segments\n"), "%s", run.errors);
}

Test(recording, a_link_in_the_place_of_the_lock_is_not_followed, .init = open_feed, .timeout = 60)
{
	char *dir = suite_path("dir"), *victim = suite_path("victim"), *lock = suite_text("%s/lock", dir);
	struct run run;

	cr_assert_eq(mkdir(dir, 0700) + symlink(victim, lock), 0);
	run = run_in(NULL, suite_text("record --profile %s --segments %s", profile(), dir));
	cr_assert(run.status == 1 && strstr(run.errors, "symbolic links"), "%s", run.errors);
	cr_assert_eq(access(victim, F_OK), -1);
}

/* Runs try --expect, and sends it 200 events and one message that is too long. */
static struct run expect_to_fit(const char *profile)
{
	const char *const try[] = {program(), "try",           "--profile", profile, "--expect",
				   "3s",      "--max-message", "64KiB",     NULL};
	struct process *p = process_start_argv(try, NULL);

	cr_assert(wait_until(feed_clients(feed) == 1, SOON_MS));
	feed_sendf(feed, "{\"event_id\":\"long\",\"payload\":\"%0200000d\"}", 0);
	for (int i = 0; i < 200; i++)
		feed_sendf(feed, "{\"event_id\":\"%d\"}", i);
	return (struct run){
		.status = process_wait(p, SOON_MS), .output = process_output(p), .errors = process_errors(p)};
}

Test(recording, what_it_leaves_out_is_told, .init = open_feed, .timeout = 60)
{
	char *lines = suite_path("lines"),
	     *many = suite_file("many.json", suite_text("{\"name\": \"many\", \"url\": \"%s\", \"vars\": {\"items\": "
							"[1, 2, 3]}, \"shard\": {\"var\": \"items\", "
							"\"per_connection\": 1}, \"rules\": [{\"action\": \"event\", "
							"\"id\": [[\"/event_id\"]]}]}",
							feed_url(feed)));
	const char *const try[] = {program(), "try",           "--profile", profile(), "--expect",
				   "3s",      "--max-message", "64KiB",     NULL};
	struct process *p = start(suite_text("--messages 1 --max-message 64KiB %s", lines)),
		       *trial = process_start_argv(try, NULL);
	struct run run;

	cr_assert(feed_wait_clients(feed, 2, SOON_MS));
	feed_sendf(feed, "{\"event_id\":\"long\",\"payload\":\"%0200000d\"}", 0);
	feed_send_text(feed, "{\"event_id\":\"short\"}");
	cr_assert_eq(process_wait(p, SOON_MS), 1);
	cr_assert_eq(process_wait(trial, SOON_MS), 1);
	cr_assert(strstr(process_errors(p), ": 1 messages are left out: they are longer than --max-message"), "%s",
		  process_errors(p));
	cr_assert(strstr(process_errors(trial), "some messages are longer than --max-message"), "%s",
		  process_errors(trial));
	run = run_in(NULL, suite_text("record --profile %s --seconds 1 %s", many, suite_path("part")));
	cr_assert(strstr(run.errors, ": many needs 3 connections; this is only the first, with the items of many/1\n"),
		  "%s", run.errors);
	run = expect_to_fit(many);
	cr_assert(!run.status && !*run.output && !*run.errors, "cron mails whatever it prints: %s", run.errors);
}

/* It does not listen on for nothing. */
Test(recording, a_full_disk_ends_it, .init = open_feed, .timeout = 60)
{
	struct process *lines = start("- >/dev/full"),
		       *segments = start_after("ulimit -f 1; trap '' XFSZ;",
					       suite_text("--segments %s", suite_path("dir")));

	cr_assert(feed_wait_clients(feed, 2, SOON_MS));
	feed_sendf(feed, "%0100000d", 0);
	cr_assert_eq(process_wait(lines, SOON_MS), 1);
	cr_assert(strstr(process_errors(lines), "-: cannot be written: No space left on device\n"), "%s",
		  process_errors(lines));
	cr_assert_eq(process_wait(segments, SOON_MS), 1);
	cr_assert(strstr(process_errors(segments), "/dir: cannot be written: File too large\n"), "%s",
		  process_errors(segments));
}
