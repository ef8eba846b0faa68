/* wsonce export: which rows it prints, in which order, how it continues, and that wsonce replay restores them. */
#include "support.h"
#include "bench.h"

#include <fcntl.h>
#include <unistd.h>

#define WAIT_MS 20000

TestSuite(export, .init = bench_open, .timeout = 120);

/* Everything that replay keeps. */
#define ROWS \
	"SELECT string_agg(concat_ws('|', event_id, event_type, payload, received_at, event_time, source), chr(10) " \
	"ORDER BY received_at, event_id COLLATE \"C\") FROM events"
#define LETTERS \
	"SELECT string_agg(concat_ws('|', digest, reason, raw, event_id, event_type, source), chr(10) ORDER BY " \
	"digest) " \
	"FROM dead_letters"

/* Rows that were received in the reverse order of their ids, every 10 ms up to 2026-11-01. */
static void add_rows(long count)
{
	run_expect(db, 0, NULL, "migrate");
	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload, received_at, source) SELECT 'e' || i, 't' || "
		      "i %% 3, to_jsonb(i), '2026-11-01Z'::timestamptz - i * interval '10 ms', CASE i %% 2 WHEN 0 THEN "
		      "'kraken' END FROM generate_series(1, %ld) AS i",
		      count);
}

static long lines_of(const char *text)
{
	long n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* Texts of megabytes, of which the first difference is shown. */
static void must_equal(const char *text, const char *wanted)
{
	for (; *text && *text == *wanted; text++)
		wanted++;
	cr_assert(*text == *wanted, "\"%.100s\", not \"%.100s\"", text, wanted);
}

/* The position that the command has printed. */
static char *position_of(const char *errors)
{
	const char *at = strstr(errors, "--after ");

	cr_assert(at, "no position: %s", errors);
	return suite_text("%.*s", (int)strcspn(at + 8, " \n"), at + 8);
}

static char *export_all(struct database *database)
{
	struct run run = run_on(database, "export");

	cr_assert_eq(run.status, 0, "%s", run.errors);
	return run.output;
}

static char *run_on_file(const char *words, const char *file)
{
	struct run run = run_in(NULL, suite_text("%s --store sqlite://%s", words, file));

	cr_assert_eq(run.status, 0, "%s%s", run.output, run.errors);
	return run.output;
}

Test(export, rows_are_the_same_after_a_way_through_sqlite_and_back)
{
	char *file = suite_path("events.db");
	struct database *other = database_new();

	add_rows(50);
	database_exec(
		db,
		"INSERT INTO events (event_id, event_type, payload, received_at, event_time, source, instance) VALUES "
		"('\"\\u0041\" ' || chr(233) || chr(27) || chr(133) || '|', chr(9), '{\"a\": 0.10, \"b\": "
		"123456789012345678901234567890.12345678901234567890, \"c\": 1e400, \"d\": 1e-40, \"e\": -0.0, \"f\": "
		"\"\\u00e9\\u2028\\ud83d\\ude00\\n\\\"\\\\\\u007f\\u0001\", \"\": [null, true]}', '2026-11-02 "
		"00:00:00.123456Z', '1999-12-31 23:59:59.999999Z', 's\"\\', 'web-1'), ('null', '', 'null', "
		"'2026-11-02Z', NULL, NULL, NULL), (repeat('i', 512), repeat('t', 5000), to_jsonb(repeat('x', "
		"2000000)), '2026-11-03Z', NULL, 'ingest', NULL)");
	run_on_file(suite_text("replay %s", suite_file("first", export_all(db))), file);
	run_expect(other, 0, "persisted 53,", "replay %s --redis none",
		   suite_file("second", run_on_file("export", file)));
	must_equal(database_text(other, ROWS), database_text(db, ROWS));
	/* A second time, into the same tables. */
	run_expect(other, 0, "persisted 0, duplicates 53,", "replay %s --redis none",
		   suite_file("third", export_all(other)));
}

Test(export, dead_letters_are_the_same_after_replay)
{
	struct database *other = database_new();
	char *path = suite_file("lines", "no event\n{\"event_id\":\"a\",\"payload\":\"\\u0000\"}\n");

	run_expect(db, 1, "rejected 2", "replay %s", path);
	database_exec(
		db, "INSERT INTO dead_letters (digest, reason, raw, instance_id, source) VALUES (sha256('\\x00ff61'), "
		    "'unreadable \"frame\"', '\\x00ff61', 'i', 'kraken')");
	database_exec(
		db,
		"INSERT INTO dead_letters (digest, reason, raw, instance_id, resolved_at, last_seen) VALUES "
		"('1', 'resolved', '', 'i', now(), now() - interval '1 h'), ('2', 'of others', '', 'i', NULL, now())");
	database_exec(db, "UPDATE dead_letters SET consumer = 'billing' WHERE reason = 'of others'");
	struct run run = run_on(db, "export --dead-letters");
	cr_assert_eq(run.status, 0, "%s", run.errors);
	cr_assert_eq(lines_of(run.output), 3, "%s", run.output);
	run_expect(other, 1, "rejected 3", "replay %s --redis none", suite_file("letters", run.output));
	database_exec(db, "DELETE FROM dead_letters WHERE digest IN ('1', '2')");
	cr_assert_str_eq(database_text(other, LETTERS), database_text(db, LETTERS));
	run_expect(db, 0, "\"wsonce_letter\"", "export --dead-letters --source kraken");
	run_expect(db, 0, "", "export --dead-letters --after %s", position_of(run.errors));
}

/* 5,000 rows are three pages of 2,000. */
Test(export, after_any_position_the_rest_follows_in_the_order_of_received_at)
{
	add_rows(5000);
	database_exec(db, "UPDATE events SET received_at = '2026-10-31 23:59:50Z' WHERE id BETWEEN 990 AND 1010");
	char *all = export_all(db),
	     *sorted = database_text(db, "SELECT string_agg(event_id, ' ' ORDER BY received_at, id) "
					 "FROM events");
	char *seen = suite_text("%s", ""), *line = all;

	cr_assert_eq(lines_of(all), 5000);
	for (char *end; (end = strchr(line, '\n')); line = end + 1) {
		json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
		const char *id = json_string_value(json_object_get(row, "event_id"));

		cr_assert(strncmp(sorted, id, strlen(id)) == 0, "%s, not %.20s", id, sorted);
		sorted += strlen(id) + (sorted[strlen(id)] == ' ');
		if (strcmp(id, "e1000") == 0 || strcmp(id, "e3000") == 0 || strcmp(id, "e1") == 0) {
			struct run rest = run_on(db, "export --after %s/%lld",
						 json_string_value(json_object_get(row, "received_at")),
						 (long long)json_integer_value(json_object_get(row, "wsonce_row")));

			cr_assert_eq(rest.status, 0, "%s", rest.errors);
			must_equal(rest.output, end + 1);
			seen = suite_text("%s%s ", seen, id);
		}
		json_decref(row);
	}
	cr_assert_str_eq(seen, "e3000 e1000 e1 ");
}

Test(export, a_span_a_source_and_a_type_choose)
{
	add_rows(60);
	cr_assert_eq(lines_of(run_on(db, "export --source kraken").output), 30);
	cr_assert_eq(lines_of(run_on(db, "export --type t0").output), 20);
	struct run run = run_on(db, "export --since 2026-10-31T23:59:59.5Z --until 2026-10-31T23:59:59.9Z");
	cr_assert_eq(lines_of(run.output), 40, "%s", run.errors);
	cr_assert_str_eq(position_of(run.errors), "2026-10-31T23:59:59.900000Z/0");
	cr_assert_eq(lines_of(run_on(db, "export --after %s", position_of(run.errors)).output), 10);
	run_expect_error(db, 2, "--after must be a position", "export --after 7");
	run_expect_error(db, 2, "exclude each other", "export --since 1h --after 2026-10-31T23:59:59Z/1");
}

/* --- what may still change --- */

/* A listener that has checked in a second ago, and has had no outcome of some events since settled. */
static void add_listener(const char *settled)
{
	database_exec(
		db,
		"INSERT INTO wsonce_listeners (listener, dedup_window_s, report) VALUES ('web-1-311.0123456789abcdef', "
		"300, jsonb_build_object('settled_us', (extract(epoch FROM '%s'::timestamptz) * 1000000)::bigint))",
		settled);
}

Test(export, rows_among_which_a_listener_may_still_store_are_left_out)
{
	add_rows(60);
	add_listener("2026-10-31 23:59:59.7Z");
	struct run run = run_on(db, "export");
	cr_assert_eq(run.status, 0, "%s", run.errors);
	cr_assert_eq(lines_of(run.output), 30);
	run_expect_error(db, 1, "the listener web-1-311 may still store", "export --until 2026-10-31T23:59:59.8Z");
	run_expect_error(db, 0, "exported 20 lines; go on with --after 2026-10-31T23:59:59.600000Z/0",
			 "export --until 2026-10-31T23:59:59.6Z");
	cr_assert_eq(lines_of(run_on(db, "export --live").output), 60);
	/* It has not checked in for long. */
	database_exec(db, "UPDATE wsonce_listeners SET seen_at = now() - interval '2 h'");
	cr_assert_eq(lines_of(run_on(db, "export --after %s", position_of(run.errors)).output), 30);
}

Test(export, a_listener_tells_up_to_when_it_has_settled_its_events, .fini = bench_close)
{
	bench_serve((struct listener_options){0}, "--claim-ttl 30");
	peer_sendf(producer, "{\"event_id\":\"a\"}");
	ack_expect(producer, "a", "persisted");
	cr_assert_eq(
		bench_count("wsonce_listeners WHERE abs((report->>'settled_us')::bigint / 1e6 - extract(epoch FROM "
			    "seen_at)) < 5"),
		1);
}

Test(export, a_command_receives_nothing_before_it_has_told_when_it_begins)
{
	char *fifo = suite_path("fifo");

	cr_assert_eq(mkfifo(fifo, 0666), 0);
	int fd = open(fifo, O_RDWR | O_CLOEXEC);
	dprintf(fd, "{\"event_id\":\"a\"}\n");
	struct process *p = run_start_on(db, "replay %s", fifo);
	await(bench_rows() == 1, WAIT_MS);
	cr_assert_eq(bench_count("events, wsonce_listeners WHERE extract(epoch FROM received_at) * 1e6 > "
				 "(report->>'settled_us')::bigint"),
		     1);
	close(fd);
	cr_assert_eq(process_wait(p, WAIT_MS), 0, "%s", process_last_words(p));
}

Test(export, it_waits_for_transactions_that_have_written_and_says_which_does_not_end)
{
	struct database *writer;

	add_rows(60);
	writer = database_open(database_conninfo(db));
	database_exec(writer,
		      "BEGIN; INSERT INTO events (event_id, event_type, payload, received_at) VALUES ('late', '', "
		      "'1', '2026-10-31 23:59:59Z')");
	run_expect_error(db, 1, "has written to events and is not committed", "export --postgres-timeout 1");
	run_expect_error(db, 0, "exported 60 lines", "export --live");
	run_expect_error(db, 0, "exported 0 lines", "export --until 2026-10-01T00:00:00Z");
	struct process *p = run_start_on(db, "export");
	await(database_long(db,
			    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wsonce' AND query LIKE "
			    "'%%pg_locks%%' AND pid <> pg_backend_pid()"),
	      WAIT_MS, "%s", process_last_words(p));
	database_exec(writer, "COMMIT");
	cr_assert_eq(process_wait(p, WAIT_MS), 0, "%s", process_last_words(p));
	cr_assert_eq(lines_of(process_output(p)), 61);
	cr_assert(strstr(process_output(p), "\"event_id\":\"late\""));
}

/* The letter of the open transaction has the smaller id, which a later --after leaves out. */
Test(export, it_waits_for_transactions_that_have_written_dead_letters)
{
	struct database *writer = database_open(database_conninfo(db));
	struct database *writers[] = {writer, db};

	run_expect(db, 0, NULL, "migrate");
	database_exec(writer, "BEGIN");
	for (int i = 0; i < 2; i++)
		database_exec(writers[i],
			      "INSERT INTO dead_letters (digest, reason, raw, instance_id) VALUES ('%d', '', '', 'i')",
			      i);
	run_expect_error(db, 1, "has written to dead_letters and is not committed",
			 "export --dead-letters --postgres-timeout 1");
	database_exec(writer, "COMMIT");
	struct run run = run_on(db, "export --dead-letters");
	cr_assert_eq(lines_of(run.output), 2, "%s", run.errors);
}

/* --- what ends it in the middle --- */

/* Starts an export into a pipe that nobody reads once it is full. */
static struct process *start_into_pipe(int *out)
{
	char *fifo = suite_path("fifo"), *bin = getenv("WSONCE_TEST_BIN") ? getenv("WSONCE_TEST_BIN") : "build/wsonce";
	char *words = suite_text("exec %s export >%s", bin, fifo);
	char *postgres = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)), first;
	struct process *p;

	cr_assert_eq(mkfifo(fifo, 0600), 0);
	p = process_start_argv((const char *const[]){"sh", "-c", words, NULL}, (const char *const[]){postgres, NULL});
	*out = open(fifo, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(read(*out, &first, 1), 1);
	return p;
}

/* The rest of what is in the pipe, behind the first byte. */
static char *drain(int out)
{
	FILE *in = fdopen(out, "r");
	char *text = NULL;
	size_t size = 0;

	cr_assert(getdelim(&text, &size, '\0', in) > 0);
	fclose(in);
	return suite_text("{%s", text);
}

static void expect_rest(const char *first, const char *errors)
{
	struct run rest = run_on(db, "export --after %s", position_of(errors));

	cr_assert_eq(rest.status, 0, "%s", rest.errors);
	cr_assert_lt(lines_of(first), 20000, "it was not stopped in the middle");
	cr_assert_eq(lines_of(first) + lines_of(rest.output), 20000, "%ld and %ld", lines_of(first),
		     lines_of(rest.output));
	must_equal(suite_text("%s%s", first, rest.output), export_all(db));
}

Test(export, interrupted_it_ends_with_a_whole_line_and_its_position)
{
	int out;

	add_rows(20000);
	struct process *p = start_into_pipe(&out);
	process_signal(p, SIGINT);
	char *first = drain(out);
	cr_assert_eq(process_wait(p, WAIT_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_errors(p), "wsonce: interrupted\n"), "%s", process_errors(p));
	expect_rest(first, process_errors(p));
}

Test(export, without_its_database_it_ends_with_a_whole_line_and_its_position)
{
	int out;

	add_rows(20000);
	struct process *p = start_into_pipe(&out);
	database_terminate_backends(db);
	char *first = drain(out);
	cr_assert_eq(process_wait(p, WAIT_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_errors(p), "wsonce: postgres: "), "%s", process_errors(p));
	expect_rest(first, process_errors(p));
}

Test(export, a_file_on_a_full_disk_ends_with_a_whole_line)
{
	char *file = suite_path("full"), *bin = getenv("WSONCE_TEST_BIN") ? getenv("WSONCE_TEST_BIN") : "build/wsonce";
	char *words = suite_text("trap '' XFSZ; ulimit -f 1001; exec %s export >%s", bin, file);
	char *postgres = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db));

	add_rows(20000);
	struct process *p = process_start_argv((const char *const[]){"sh", "-c", words, NULL},
					       (const char *const[]){postgres, NULL});
	cr_assert_eq(process_wait(p, WAIT_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_errors(p), "cannot write to standard output: File too large\n"), "%s",
		  process_errors(p));
	int in = open(file, O_RDONLY | O_CLOEXEC);
	expect_rest(drain(in) + 1, process_errors(p));
}

Test(export, a_closed_pipe_is_said_with_the_position)
{
	int out;

	add_rows(20000);
	struct process *p = start_into_pipe(&out);
	close(out);
	cr_assert_eq(process_wait(p, WAIT_MS), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_errors(p), "standard output was closed"), "%s", process_errors(p));
	position_of(process_errors(p));
}

Test(export, rows_that_a_policy_hides_are_an_error_and_not_missing)
{
	char *role = suite_text("tenant_%d", (int)getpid());

	add_rows(3);
	database_exec(db,
		      "CREATE ROLE %s; GRANT SELECT ON ALL TABLES IN SCHEMA public TO %s; "
		      "ALTER TABLE events ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON events USING (id = 1)",
		      role, role);
	struct run run = run_in((const char *const[]){suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)),
						      suite_text("PGOPTIONS=-c role=%s", role), NULL},
				"export");
	/* The other commands work with what they see, and say that it may be too little. */
	struct run purge = run_in((const char *const[]){suite_text("WSONCE_POSTGRES=%s", database_conninfo(db)),
							suite_text("PGOPTIONS=-c role=%s", role), NULL},
				  "purge --older-than 1d --dry-run");
	database_exec(db, "DROP OWNED BY %s; DROP ROLE %s", role, role);
	cr_assert(purge.status == 0 && strstr(purge.errors, "row-level security of public.events applies to the role"),
		  "%d %s%s", purge.status, purge.output, purge.errors);
	cr_assert(run.status == 1 && !*run.output && strstr(run.errors, "row-level security"), "%d %s%s", run.status,
		  run.output, run.errors);
}

/* A message of some bytes, with numbers that are long when they are printed. */
Test(export, a_row_that_is_too_long_to_print_is_left_out_and_named)
{
	add_rows(3);
	database_exec(db, "INSERT INTO events (event_id, event_type, payload, received_at) SELECT 'huge', '', "
			  "jsonb_agg((i || 'e131000')::numeric), '2026-10-31Z' FROM generate_series(1, 300) AS i");
	struct run run = run_on(db, "export");
	cr_assert_eq(run.status, 1);
	cr_assert_eq(lines_of(run.output), 3);
	cr_assert(strstr(run.errors, "row 4 is left out"), "%s", run.errors);
}
