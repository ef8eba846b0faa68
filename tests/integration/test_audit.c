/* wsonce audit: which events are stored, dead, in flight or missing; and storing missing ones while a fleet runs. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 20000
#define END_MS     60000

static long number_of(const json_t *root, const char *name)
{
	const json_t *value = json_object_get(root, name);

	cr_assert(json_is_integer(value), "no number %s", name);
	return (long)json_integer_value(value);
}

/* Of s-1 to s-6: two are stored, one is a dead letter, one discarded, one in flight, one missing. */
static void prepare_six(void)
{
	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload) VALUES ('s-1', '', '1'), ('s-2', '', '2')");
	database_exec(db,
		      "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id, resolved_at, resolution) "
		      "VALUES ('3', 's-3', 'x', '', 'i', NULL, NULL), ('4', 's-4', 'x', '', 'i', now(), 'discarded')");
	claims_put(redisd_shared(), "s-5", "somebody@1", 60000);
}

static void check_six(const json_t *root)
{
	cr_expect_eq(number_of(root, "expected"), 6);
	cr_expect_eq(number_of(root, "stored"), 2);
	cr_expect_eq(number_of(root, "dead_lettered"), 1);
	cr_expect_eq(number_of(root, "discarded"), 1);
	cr_expect_eq(number_of(root, "in_flight"), 1);
	cr_expect_eq(number_of(root, "missing"), 1);
	cr_expect_str_eq(json_string_value(json_array_get(json_object_get(root, "missing_ids"), 0)), "s-6");
}

Test(audit, ids_are_stored_dead_in_flight_or_missing, .init = bench_open)
{
	char *ids = suite_file("ids", "s-1\ns-2\r\ns-3\n\ns-4\ns-5\ns-6\ns-1\ns-6"), *words;
	char *missing = suite_path("missing");

	prepare_six();
	words = suite_text("--expected %s --missing-to %s", ids, missing);
	json_t *root = run_json(db, 1, "audit --json %s", words);
	check_six(root);
	cr_assert_eq(number_of(root, "lines"), 8);
	run_expect(db, 1, "missing                   1\n\ns-6\n", "audit --expected %s", ids);
	cr_assert_eq(process_run((const char *const[]){"grep", "-cx", "s-6", missing, NULL}, END_MS), 0);
}

Test(audit, whole_events_are_too, .init = bench_open)
{
	char *path = suite_file("events", "{\"event_id\":\"s-1\"}\n{\"event_id\":\"s-2\"}\n{\"event_id\":\"s-3\"}\n"
					  "{\"event_id\":\"s-4\"}\n{\"event_id\":\"s-5\"}\n{\"event_id\":\"s-6\"}"),
	     *words;

	prepare_six();
	words = suite_text("--expected %s", path);
	json_t *root = run_json(db, 1, "audit --json %s", words);
	check_six(root);
}

Test(audit, nothing_missing_is_status_0, .init = bench_open)
{
	char *ids = suite_file("ids", "s-1\ns-2\n"), *none = suite_file("none", "");

	prepare_six();
	run_expect(db, 0, "missing                   0\n", "audit --expected %s", ids);
	run_expect_error(db, 1, "the list of expected events is empty", "audit --expected %s", none);
}

Test(audit, byte_order_mark_and_blanks_are_seen_and_what_is_no_text_is_refused, .init = bench_open)
{
	char *marked = suite_file("marked", "\xef\xbb\xbfs-1\n"),
	     *blank = suite_file("blank", " {\"event_id\":\"s-1\"}\n");
	char *gzip = suite_file("gzip", "\x1f\x8b\x08"), *wide = suite_file("wide", "\xff\xfes");

	prepare_six();
	run_expect(db, 0, "stored                    1\n", "audit --expected %s", marked);
	run_expect(db, 0, "stored                    1\n", "audit --expected %s", blank);
	run_expect_error(db, 1, "gzip", "audit --expected %s", gzip);
	run_expect_error(db, 1, "UTF-16", "replay %s", wide);
}

Test(audit, rows_that_purge_deleted_are_told_of_where_events_are_missing, .init = bench_open)
{
	char *ids = suite_file("ids", "s-1\nnever-came\n");

	prepare_six();
	database_exec(db, "INSERT INTO wsonce_retention (rows_deleted_s) VALUES (30 * 86400)");
	run_expect_error(db, 1, "events older than 30 days were deleted", "audit --expected %s", ids);
}

Test(audit, what_is_in_flight_at_the_end_is_not_status_0, .init = bench_open)
{
	char *ids = suite_file("ids", "s-1\ns-5\n");

	prepare_six();
	run_expect(db, 1, "in flight                 1\n", "audit --expected %s", ids);
}

/* s-7 was a dead letter whose message was edited and stored, perhaps under another id; s-8 one that was stored
 * unchanged, and whose row is gone. */
Test(audit, event_whose_letter_was_repaired_is_not_missing, .init = bench_open)
{
	char *ids = suite_file("ids", "s-7\ns-8\n");

	database_exec(db,
		      "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id, resolved_at, resolution) "
		      "VALUES ('7', 's-7', 'x', '', 'i', now(), 'persisted'), "
		      "('8', 's-8', 'x', '', 'i', now(), 'persisted')");
	database_exec(db, "INSERT INTO dead_letter_actions (letter_id, digest, action, outcome, instance_id) "
			  "SELECT id, digest, CASE event_id WHEN 's-7' THEN 'retry-edited' ELSE 'retry' END, "
			  "'persisted', 'i' FROM dead_letters");
	json_t *root = run_json(db, 1, "audit --json --expected %s", ids);
	cr_expect_eq(number_of(root, "resolved"), 1);
	cr_expect_eq(number_of(root, "missing"), 1);
}

Test(audit, list_is_not_overwritten_by_what_is_missing, .init = bench_open)
{
	char *ids = suite_file("ids", "s-1\ns-6\n"), *part = suite_file("x.part", "s-1\n"), *x = suite_path("x");

	run_expect_error(db, 2, "--missing-to", "audit --expected %s --missing-to %s", ids, ids);
	run_expect_error(db, 2, "--missing-to", "audit --expected %s --missing-to %s", part, x);
	run_expect(db, 1, "missing                   2\n", "audit --expected %s --missing-to %s", ids, x);
}

/* In a folder where others may write, such as /tmp. */
Test(audit, no_link_is_followed_to_write_what_is_missing, .init = bench_open)
{
	char *ids = suite_file("ids", "s-6\n"), *other = suite_file("other", "precious\n"), *x = suite_path("x");
	struct stat st;

	cr_assert_eq(symlink(other, suite_text("%s.part", x)), 0);
	run_expect(db, 1, "missing                   1\n", "audit --expected %s --missing-to %s", ids, x);
	cr_assert_eq(stat(other, &st), 0);
	cr_assert_eq(st.st_size, 9, "the file that the link leads to was overwritten");
	cr_assert(lstat(x, &st) == 0 && S_ISREG(st.st_mode));
}

Test(audit, standard_input_is_read_and_a_limit_kept, .init = bench_open)
{
	char *ids = suite_file("ids", "a\nb\nc\n"), *line, *postgres;

	line = suite_text("${WSONCE_TEST_BIN:-build/wsonce} audit --expected - --redis none --limit 2 <%s", ids);
	postgres = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db));
	struct process *p = process_start_argv((const char *const[]){"sh", "-c", line, NULL},
					       (const char *const[]){postgres, NULL});
	cr_assert_eq(process_wait(p, END_MS), 1, "%s", process_last_words(p));
	char *output = process_output(p);
	cr_assert(strstr(output, "in flight         not known"), "%s", output);
	cr_assert(strstr(output, "\na\nb\nand 1 more"), "%s", output);
}

Test(audit, lines_that_are_no_ids_and_ids_where_events_are_needed_are_wrong_usage, .init = bench_open)
{
	char *bad = suite_file("bad", "a\n\xff\n"), *ids = suite_file("ids", "a\n");

	run_expect(db, 2, NULL, "audit --expected %s", bad);
	run_expect(db, 2, NULL, "audit --expected %s --resubmit", ids);
	run_expect(db, 2, NULL, "audit --expected %s --grace 1h --time-pointer /time", ids);
	run_expect(db, 1, NULL, "audit --expected /nowhere/ids");
}

Test(audit, ids_of_any_characters_are_compared_as_they_are, .init = bench_open)
{
	char *path = suite_file("events", "{\"event_id\":\"tab\\t\\\\N\\r\\nend\"}\n{\"event_id\":\"it's\"}\n"
					  "{\"event_id\":\"日本\"}\n{\"event_id\":12.50}\n");

	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload) VALUES "
		      "(E'tab\\t\\\\N\\r\\nend', '', '1'), ('it''s', '', '1'), ('日本', '', '1'), ('12.50', '', '1')");
	run_expect(db, 0, "stored                    4\n", "audit --expected %s", path);
}

Test(audit, grace_and_horizon_leave_out_by_the_events_own_time, .init = bench_open)
{
	long now = (long)time(NULL);
	char *text = suite_text("{\"event_id\":\"young\",\"at\":%ld}\n{\"event_id\":\"right\",\"at\":%ld}\n"
				"{\"event_id\":\"old\",\"at\":%ld}\n{\"event_id\":\"timeless\"}\n",
				now - 60, now - 7200, now - 10 * 86400);
	char *path = suite_file("events", text);
	char *words = suite_text("--expected %s --time-pointer /at --time-unit s --grace 1h --horizon 7d", path);
	json_t *root = run_json(db, 1, "audit --json %s", words);
	cr_expect_eq(number_of(root, "too_young"), 1);
	cr_expect_eq(number_of(root, "too_old"), 1);
	cr_expect_eq(number_of(root, "without_time"), 1);
	cr_expect_eq(number_of(root, "missing"), 2);
	run_expect(db, 1, "missing                   4\n", "audit --expected %s", path);
}

/* ---- of a consumer ---- */

/* The fleet without a name has stored s-1 to s-3, has a letter of s-5 and is processing s-6. billing has processed s-1
 * and s-2, and has letters of s-4 and of a line that is not an event. */
static void prepare_two_fleets(void)
{
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('s-1', '', '1'), "
			  "('s-2', '', '1'), ('s-3', '', '1')");
	database_exec(db, "INSERT INTO processed_events (consumer, event_id) VALUES ('billing', 's-1'), "
			  "('billing', 's-2'), ('search', 's-3')");
	database_exec(db, "INSERT INTO dead_letters (consumer, digest, event_id, reason, raw, instance_id) VALUES "
			  "('billing', '4', 's-4', 'x', '', 'i'), ('', '5', 's-5', 'x', '', 'i'), "
			  "('billing', sha256(sha256('no event') || 'billing'), NULL, 'x', '', 'i')");
	claims_put(redisd_shared(), "s-6", "somebody@1", 60000);
}

static void expect_counts(const char *words, long stored, long dead_lettered, long in_flight, long missing)
{
	json_t *root = run_json(db, 1, "audit --json %s", words);

	cr_expect_eq(number_of(root, "stored"), stored, "%s: %ld", words, number_of(root, "stored"));
	cr_expect_eq(number_of(root, "dead_lettered"), dead_lettered);
	cr_expect_eq(number_of(root, "in_flight"), in_flight);
	cr_expect_eq(number_of(root, "missing"), missing);
}

Test(audit, with_a_consumer_stored_is_what_it_has_processed, .init = bench_open)
{
	char *path = suite_file("events", "{\"event_id\":\"s-1\"}\n{\"event_id\":\"s-2\"}\n{\"event_id\":\"s-3\"}\n"
					  "{\"event_id\":\"s-4\"}\n{\"event_id\":\"s-5\"}\n{\"event_id\":\"s-6\"}\n"
					  "no event\n"),
	     *words;

	prepare_two_fleets();
	words = suite_text("--expected %s --consumer billing", path);
	expect_counts(words, 2, 2, 0, 3);
	run_expect(db, 1, "\ns-3\ns-5\ns-6\n", "audit %s", words);
	words[strlen(words) - strlen(" --consumer billing")] = '\0';
	expect_counts(words, 3, 1, 1, 2);
	database_exec(db, "UPDATE dead_letters SET resolved_at = now(), resolution = 'discarded' WHERE digest <> '4'");
	run_expect(db, 1, "discarded                 1\n", "audit %s --consumer billing", words);
}

Test(audit, with_a_consumer_nothing_missing_is_status_0, .init = bench_open)
{
	char *ids = suite_file("ids", "s-1\ns-2\n"), *more = suite_file("more", "s-1\ns-2\ns-4\n");

	prepare_two_fleets();
	run_expect(db, 0, "missing                   0\n", "audit --expected %s --consumer billing", ids);
	run_expect(db, 1, "\n\ns-4  (dead letter)\n", "audit --expected %s --consumer billing", more);
	run_expect(db, 1, "missing                   3\n", "audit --expected %s --consumer search", more);
}

Test(audit, with_a_consumer_what_it_has_not_processed_is_resubmitted_to_it, .init = bench_open)
{
	char *path = fleet_file("events", 50);

	run_expect(db, 0, "persisted 50", "replay %s", path);
	run_expect(db, 0, "resubmitted 50: persisted 50,", "audit --expected %s --resubmit --consumer billing", path);
	run_expect(db, 0, "missing                   0\n", "audit --expected %s --resubmit --consumer billing", path);
	cr_assert_eq(bench_rows(), 50);
	cr_assert_eq(bench_count("processed_events"), 50);
}

/* A line that is not an event is a separate dead letter for each consumer. */
Test(audit, with_a_consumer_a_line_that_is_no_event_is_found_in_its_letters, .init = bench_open)
{
	char *path = suite_file("events", "this is no event\n");

	run_expect(db, 1, "rejected 1", "audit --format events --expected %s --resubmit --consumer billing", path);
	run_expect(db, 1, "dead letters              1\n", "audit --format events --expected %s --consumer billing",
		   path);
	run_expect(db, 1, "missing                   1\n", "audit --format events --expected %s", path);
}

/* ---- resubmitting ---- */

Test(audit, resubmit_stores_what_is_missing_and_the_second_time_finds_nothing, .init = bench_open)
{
	char *some = fleet_file("some", 700), *all = fleet_file("all", 2000);

	run_expect(db, 0, "persisted 700", "replay %s", some);
	run_expect(db, 0, "resubmitted 1300: persisted 1300,", "audit --expected %s --resubmit --limit 1", all);
	cr_assert_eq(bench_rows(), 2000);
	cr_assert_eq(bench_count("events WHERE event_id = 'e-' || (payload->>'n')"), 2000);
	run_expect(db, 0, "missing                   0\n", "audit --expected %s --resubmit", all);
}

Test(audit, resubmit_of_a_line_that_is_no_event_makes_it_a_dead_letter_which_is_not_missing, .init = bench_open)
{
	char *path = suite_file("events", "{\"event_id\":\"a\"}\nthis is no event\n");

	run_expect(db, 1, "resubmitted 2: persisted 1, stored meanwhile 0, rejected 1",
		   "audit --format events --expected %s --resubmit", path);
	run_expect(db, 1, "dead letters              1\n", "audit --format events --expected %s --resubmit", path);
}

/* The rule that refused them no longer exists. */
Test(audit, dead_letters_are_not_stored_and_resubmit_retries_them, .init = bench_open)
{
	char *path = suite_file("events", "{\"event_id\":\"a\"}\n{\"event_id\":\"b\"}\n{\"event_id\":\"c\"}\n");

	database_exec(db, "ALTER TABLE events ADD CONSTRAINT no_b CHECK (event_id <> 'b')");
	run_expect(db, 1, "rejected 1", "replay %s", path);
	run_expect(db, 1, "missing                   0\n\nb  (dead letter)\n", "audit --expected %s", path);
	run_expect(db, 1, "\"missing_ids\":[],\n\"dead_letter_ids\":[\n\"b\"]", "audit --json --expected %s", path);
	database_exec(db, "ALTER TABLE events DROP CONSTRAINT no_b");
	run_expect(db, 0, "resubmitted 1: persisted 1,", "audit --expected %s --resubmit", path);
	run_expect(db, 0, "dead letters              0\n", "audit --expected %s", path);
	cr_assert_eq(bench_rows(), 3);
	cr_assert_eq(bench_count("dead_letters WHERE resolution = 'persisted'"), 1);
	cr_assert_eq(bench_count("dead_letter_actions WHERE note = 'audit --resubmit'"), 1);
}

Test(audit, keys_with_times_are_read_as_an_inventory_has_them, .init = bench_open)
{
	char *path = suite_file("keys", "\"a,\"\"1\"\"\",\"2026-03-01T00:00:00.000Z\"\nb,2026-03-02T00:00:00Z,5\r\n"
					"c,2999-01-01T00:00:00Z\nd\n"),
	     *bad = suite_file("bad", "\"a\n"), longest[1100];

	snprintf(longest, sizeof(longest), "\"%0512d\",2026-03-01T00:00:00Z\n\"%0512d\"\n", 1, 1);
	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('a,\"1\"', '', '1')");
	run_expect(db, 1, "too young                 1  left out by --grace\n",
		   "audit --expected %s --format csv --grace 1d", path);
	run_expect(db, 1, "missing                   3\n\nb\nc\nd\n", "audit --expected %s --format csv", path);
	run_expect(db, 1, "missing                   1\n", "audit --expected %s --format csv",
		   suite_file("longest", longest));
	run_expect_error(db, 2, "line 1 is not CSV", "audit --expected %s --format csv", bad);
	run_expect_error(db, 2, "needs whole events", "audit --expected %s --format csv --resubmit", path);
}

Test(audit, a_header_of_a_list_of_keys_is_left_out_and_told, .init = bench_open)
{
	static const struct {
		const char *text, *part;
		int status;
	} cases[] = {
		{"key,time\na,2026-03-01T00:00:00Z\n", "header                    1  line, the first one, left out\n",
		 0},
		{"key,time\na,2026-03-01T00:00:00Z\n", "expected                  1  different events\n", 0},
		{"\"Key\",\"Time\"\n\"a\",\"1772323200\"\n", "expected                  1  different events\n", 0},
		{"key,time\na\n", "missing                   1\n\nkey\n", 1},
		{"new,paid\na,open\n", "missing                   1\n\nnew\n", 1},
		{"key,time\n", "missing                   1\n\nkey\n", 1},
		{"a,2026-03-01T00:00:00Z\nkey,time\n", "missing                   1\n\nkey\n", 1},
	};

	database_exec(db, "INSERT INTO events (event_id, event_type, payload) VALUES ('a', '', '1')");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_expect(db, cases[i].status, cases[i].part, "audit --expected %s --format csv",
			   suite_file("keys", cases[i].text));
	run_expect(db, 0, "\"header\":1", "audit --json --expected %s --format csv --grace 1d",
		   suite_file("keys", cases[0].text));
	run_expect(db, 0, "\"without_time\":0", "audit --json --expected %s --format csv --grace 1d",
		   suite_file("keys", cases[0].text));
}

/* After a restore of yesterday's backup, the marks in Redis are wrong. */
Test(audit, resubmit_is_not_held_off_by_a_done_mark_without_a_row, .init = bench_open)
{
	char *path = fleet_file("events", 10);

	run_expect(db, 0, "persisted 10", "replay %s", path);
	database_exec(db, "DELETE FROM events WHERE event_id IN ('e-3', 'e-4')");
	claims_put(redisd_shared(), "e-4", "dead@1", 0);
	run_expect(db, 0, "resubmitted 2: persisted 2,", "audit --expected %s --resubmit", path);
	cr_assert_eq(bench_rows(), 10);
}

Test(audit, resubmit_reads_what_came_by_a_pipe_again, .init = bench_open)
{
	char *path = fleet_file("events", 500), *line, *postgres;

	line = suite_text("cat %s | ${WSONCE_TEST_BIN:-build/wsonce} audit --expected - --redis none --resubmit", path);
	postgres = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db));
	struct process *p = process_start_argv((const char *const[]){"sh", "-c", line, NULL},
					       (const char *const[]){postgres, NULL});
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
	cr_assert_eq(bench_rows(), 500);
}

/* For example, the shell's <(zcat day.gz), which is a pipe with a path. */
Test(audit, resubmit_reads_a_pipe_that_has_a_name_again_too, .init = bench_open)
{
	char *path = fleet_file("events", 500), *fifo = suite_path("fifo"), *line;

	line = suite_text("mkfifo %s && exec cat %s >%s", fifo, path, fifo);
	struct process *p = process_start_argv((const char *const[]){"sh", "-c", line, NULL}, NULL);
	await(access(fifo, F_OK) == 0, END_MS);
	run_expect(db, 0, "resubmitted 500: persisted 500,", "audit --expected %s --resubmit", fifo);
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
	cr_assert_eq(bench_rows(), 500);
}

/* Audits run one after the other while the fleet receives the events, some of which the feed never sends. Each event is
 * stored by exactly one of fleet and audits. */
Test(audit, resubmit_while_events_arrive_never_doubles_one, .init = bench_open, .timeout = 300)
{
	char *all = fleet_file("all", 6000), *words;
	struct fleet fleet;
	long by_audits = 0;

	words = suite_text("--expected %s --resubmit --missing-to /dev/null", all);
	fleet_start(&fleet, 3, db, NULL, NULL);
	for (int round = 0; round < 3; round++) {
		struct process *p = run_start_on(db, "audit --json %s", words);

		for (int i = 0; i < 10; i++) {
			fleet_send(&fleet, 190);
			wait_pause_ms(10);
		}
		cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
		char *output = process_output(p);
		json_t *root = json_loads(output, 0, NULL), *resubmitted = json_object_get(root, "resubmitted");
		by_audits += resubmitted ? number_of(resubmitted, "persisted") : 0;
	}
	await(fleet_metric(&fleet, "wsonce_in_flight") == 0, SETTLED_MS);
	json_t *root = run_json(db, 0, "audit --json %s", words);
	by_audits +=
		json_object_get(root, "resubmitted") ? number_of(json_object_get(root, "resubmitted"), "persisted") : 0;
	cr_assert_eq(bench_rows(), 6000);
	cr_assert_eq((long)fleet_metric(&fleet, "wsonce_persisted_total") + by_audits, 6000,
		     "stored by the fleet: %.0f, by audits: %ld", fleet_metric(&fleet, "wsonce_persisted_total"),
		     by_audits);
	root = run_json(db, 0, "audit --json %s", words);
	cr_assert_eq(number_of(root, "stored"), 6000);
}

/* Two lines agree in the last hour, except in one minute, 30 minutes ago. */
Test(audit, from_lines_only_minutes_that_are_not_verified_are_compared, .init = bench_open)
{
	char *list = database_text(
		db, "SELECT string_agg('e-' || n || ',' || to_char(date_trunc('minute', now()) AT TIME ZONE "
		    "'UTC' - n * interval '1 minute' + interval '20 s', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), E'\\n') || "
		    "E'\\nnever,' || to_char(now() - interval '2 days', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM "
		    "generate_series(10, 50) AS n");
	char *csv = suite_file("list", list);

	database_exec(
		db, "INSERT INTO line_minutes SELECT date_trunc('minute', now()) - n * interval '1 minute', s, l || "
		    "'.0123456789abcdef', r, r, r * (l = 'a')::int, r * (l = 'a')::int, 0, 0, '{0,60000}' FROM "
		    "generate_series(0, 60) AS n, unnest('{a,b}'::text[]) AS l, unnest('{x,y}'::text[]) AS s, LATERAL "
		    "(SELECT 5 - (n = 30 AND l = 'b' AND s = 'y')::int AS r) AS x");
	json_t *root = run_json(db, 1, "audit --json --format csv --from-lines --expected %s", csv);
	cr_assert_eq(number_of(root, "verified"), 38);
	cr_assert_eq(number_of(root, "missing"), 4, "three minutes, and the one of which no line has told");
	root = run_json(db, 1, "audit --json --format csv --from-lines --expected %s --consumer late", csv);
	cr_assert_eq(number_of(root, "verified"), 0, "no line has told of this consumer");
	run_expect_error(db, 2, "--from-lines need", "audit --from-lines --expected %s", csv);
}
