/* What all operators' commands have in common: help, wrong usage, an unreachable database. */

#include "support.h"

/* The first three do not use Redis. */
static const char *const commands[] = {"dead-letters list",
				       "dead-letters show",
				       "stats duplicates",
				       "dead-letters retry",
				       "dead-letters discard",
				       "audit",
				       "replay",
				       "purge"};

#define COMMANDS (sizeof commands / sizeof *commands)

Test(commands, help_lists_them_all)
{
	struct run run = run_in(NULL, "--help");

	for (size_t i = 0; i < COMMANDS; i++)
		cr_expect(strstr(run.output, commands[i]), "no %s in: %s", commands[i], run.output);
}

Test(commands, each_has_a_help_with_its_options_and_the_settings_that_it_shares_with_listen)
{
	for (size_t i = 0; i < COMMANDS; i++) {
		char usage[80];

		char *words = suite_text("%s --json --help", commands[i]);
		snprintf(usage, sizeof usage, "usage: wsonce %s ", commands[i]);
		struct run run = run_in(NULL, words);
		cr_expect_eq(run.status, 0);
		cr_expect_eq(strncmp(run.output, usage, strlen(usage)), 0, "%s", run.output);
		cr_expect(strstr(run.output, "\n  --json "), "%s", run.output);
		cr_expect(strstr(run.output, "\n  --postgres "));
		cr_expect_eq(strstr(run.output, "\n  --redis ") != NULL, i >= 3, "%s", run.output);
		cr_expect_not(strstr(run.output, "\n  --source ") || strstr(run.output, "\n  --ingest "));
	}
}

/* Returns the help of these arguments, whose lines must fit a terminal. */
static char *help_of(const char *words)
{
	struct run run = run_in(NULL, words);
	int lines = 0;

	cr_assert_eq(run.status, 0, "%s", words);
	for (char *line = run.output; *line; line += strcspn(line, "\n") + 1, lines++)
		cr_assert_leq(strcspn(line, "\n"), 80, "%s: %.*s", words, (int)strcspn(line, "\n"), line);
	cr_expect_leq(lines, strstr(words, "=all") ? 300 : 110, "%s", words);
	return run.output;
}

/* The help must list every flag that its examples use. */
static void check_example(const char *help, const char *line)
{
	char *copy = suite_text("%.*s", (int)strcspn(line, "\n"), line);

	cr_assert_eq(strncmp(line, "  wsonce ", 9), 0, "%s", copy);
	for (char *word = strtok(copy, " ="); word; word = strtok(NULL, " ="))
		if (strncmp(word, "--", 2) == 0 && word[2])
			cr_assert(strstr(help, suite_text("\n  %s ", word)) ||
					  strstr(help, suite_text("\n  %s\n", word)) || strstr(copy, "config"),
				  "%s: the help has no %s", line, word);
}

static void check_help(const char *name)
{
	char *help = help_of(suite_text("%s --help", name));
	const char *line = strstr(help, "\nExamples:\n");

	cr_assert(line, "%s: no examples", name);
	line += strlen("\nExamples:\n");
	for (int i = 0; i < 3; i++, line += strcspn(line, "\n") + 1)
		check_example(help, line);
}

Test(commands, each_help_fits_a_terminal_and_has_three_examples)
{
	struct run run = run_in(NULL, "--help=json");
	json_t *all = json_loads(run.output, 0, NULL), *one;
	int options = 0;
	size_t i;

	cr_assert_gt(json_array_size(all), 20);
	json_array_foreach(all, i, one) check_help(json_string_value(json_object_get(one, "name")));
	help_of("--help");
	help_of("dead-letters --help");
	help_of("listen --help=all");
	for (const char *at = help_of("listen --help"); (at = strstr(at, "\n  --")); at++)
		options++;
	cr_assert_eq(options, 20);
	cr_assert(strstr(help_of("listen --help"), "All settings: wsonce listen --help=all"));
}

Test(commands, a_help_lists_no_settings_that_its_command_ignores)
{
	static const char *const without[] = {"profile list", "profile show", "profile check", "schema"};

	for (size_t i = 0; i < sizeof without / sizeof *without; i++)
		cr_expect_not(strstr(help_of(suite_text("%s --help", without[i])), "WSONCE_R"), "%s", without[i]);
	cr_expect_not(strstr(help_of("status --help"), "--batch-max"));
	cr_expect_not(strstr(help_of("explain --help"), "--consumer"));
	cr_expect_not(strstr(help_of("stats duplicates --help"), "WSONCE_REDIS"));
	cr_expect_not(strstr(help_of("profile show --help"), "[OPTIONS]"));
	cr_expect(strstr(help_of("replay --help=all"), "--batch-max"));
	cr_expect_not(strstr(help_of("replay --help=all"), "--ingest"));
	cr_expect_not(strstr(help_of("replay --help=all"), "--lines-keep"));
}

Test(commands, help_of_dead_letters_lists_its_actions)
{
	struct run run = run_in(NULL, "dead-letters --help");

	cr_assert_eq(run.status, 0);
	for (size_t i = 0; i < COMMANDS; i++)
		cr_expect_eq(strstr(run.output, commands[i]) != NULL, strncmp(commands[i], "dead-letters ", 13) == 0);
}

Test(commands, wrong_usage_is_refused_by_one_line_and_status_2)
{
	static const char *const wrong[][2] = {
		{"dead-letters", "needs an action"},
		{"dead-letters burn", "unknown action \"burn\""},
		{"dead-letters list 5", "takes no arguments"},
		{"dead-letters list --source ws://h",
		 "--source is only for listeners (see wsonce dead-letters list --help)"},
		{"dead-letters list --rate 5", "unknown option --rate"},
		{"dead-letters list --limit 0", "--limit"},
		{"dead-letters list --limit", "--limit: needs a value"},
		{"dead-letters list --json=yes", "--json: takes no value"},
		{"dead-letters list --since yesterday", "--since"},
		{"dead-letters list --until 7", "--until"},
		{"dead-letters list --state closed", "--state"},
		{"dead-letters list --redis http://h", "--redis"},
		{"dead-letters list --config /nowhere.json", "--config"},
		{"dead-letters show", "takes ID"},
		{"dead-letters show 1 2", "takes ID"},
		{"dead-letters show x", "\"x\""},
		{"dead-letters show 1 --raw --json", "--raw and --json"},
		{"dead-letters retry", "--all"},
		{"dead-letters retry 7x", "\"7x\""},
		{"dead-letters retry --id 7", "--raw-file"},
		{"dead-letters retry --all --raw-file f --id 7", "--id"},
		{"dead-letters discard", "--all"},
		{"dead-letters discard -7", "\"-7\""},
		{"dead-letters discard 7 --all", "--all and ids exclude each other"},
		{"dead-letters retry --all 7", "--all and ids exclude each other"},
		{"--json status", "\"--json\" is not a command: options follow the command"},
		{"dead-letters list --target crm", "--target goes with --deliveries"},
		{"dead-letters list --consumer a/b", "--consumer"},
		{"dead-letters show --deliveries -7", "\"-7\""},
		{"dead-letters retry --deliveries", "--all"},
		{"dead-letters retry --deliveries --id 7 --raw-file f", "--deliveries"},
		{"purge", "nothing chosen to purge"},
		{"purge --delete-rows --outbox-keep 7", "needs --older-than"},
		{"audit", "--expected"},
		{"audit --expected f --grace 1h", "--time-pointer"},
		{"audit --expected f --horizon 30", "--horizon"},
		{"audit --expected f --format xml", "--format"},
		{"audit --expected f --format csv --horizon 1h --grace 1h", "--grace must be shorter than --horizon"},
		{"audit --expected f --horizon 0s", "--horizon: \"0s\" must be longer than 0"},
		{"purge --older-than 0d", "--older-than: \"0d\" must be longer than 0"},
		{"purge --outbox-older-than 0.0s", "--outbox-older-than: \"0.0s\" must be longer than 0"},
		{"status --watch --every 0s", "--every: \"0s\" must be longer than 0"},
		{"status --every 5s", "--every goes with --watch"},
		{"dead-letters list --since 1h --until 2h", "--since must be before --until"},
		{"dead-letters discard --since 1h --until 1970-01-01T00:00:00Z", "--since must be before --until"},
		{"audit file", "takes no arguments"},
		{"config print nosuch", "config print takes no arguments"},
		{"replay", "takes FILE|-"},
		{"replay a b", "takes FILE|-"},
		{"replay a --rate fast", "--rate"},
		{"replay a --rate 0", "--rate"},
		{"replay a --resubmit", "unknown option --resubmit"},
	};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		run_expect_refusal_in(NULL, wrong[i][0], wrong[i][1]);
}

Test(commands, a_database_that_is_away_is_told_by_one_line_and_status_1)
{
	static const char *const words[] = {"dead-letters list",      "dead-letters show 1",
					    "dead-letters retry 1",   "dead-letters retry --deliveries 1",
					    "dead-letters discard 1", "audit --expected /dev/null",
					    "replay /dev/null",       "purge --outbox-keep 7",
					    "stats duplicates"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		struct run run = run_in((const char *const[]){"WSONCE_POSTGRES=host=/nowhere", NULL}, words[i]);

		cr_expect_eq(run.status, 1, "%s: %d", words[i], run.status);
		cr_expect(run_is_one_line(run.errors) && strstr(run.errors, "cannot reach postgres"), "%s: %s",
			  words[i], run.errors);
		cr_expect_str_eq(run.output, "");
	}
}

Test(commands, a_database_without_tables_is_left_as_it_is)
{
	static const char *const words[] = {"dead-letters list", "dead-letters show 1", "stats duplicates",
					    "purge --older-than 30d"};
	struct database *db = database_empty_new();

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		struct run run = run_on(db, "%s", words[i]);

		cr_assert_eq(run.status, 1, "%s: status %d", words[i], run.status);
		cr_assert(strstr(run.errors, "has no tables of wsonce: check --postgres"), "%s", run.errors);
	}
	cr_assert_eq(database_long(db, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"), 0);
	run_expect(db, 0, NULL, "migrate");
	run_expect(db, 0, "dead letters: 0", "dead-letters list");
}

Test(commands, a_schema_newer_than_the_program_is_an_error)
{
	struct database *db = database_new();

	run_expect(db, 0, NULL, "migrate");
	database_exec(db, "INSERT INTO wsonce_schema (version) VALUES (1000)");
	struct run run = run_on(db, "dead-letters list");
	cr_assert_eq(run.status, 1);
	cr_assert(strstr(run.errors, "schema version 1000"), "%s", run.errors);
}

/* Every command has statements here that take longer than the role's timeout. */
Test(commands, the_statement_timeout_of_a_role_ends_none)
{
	struct database *db = database_new();
	char *path = suite_file("events", "{\"event_id\":\"e-1\"}\n{\"event_id\":\"new\"}\n");

	run_expect(db, 0, NULL, "migrate");
	database_exec(db,
		      "INSERT INTO events (event_id, event_type, payload, processed_at) SELECT 'e-' || i, '', '{}', "
		      "now() - interval '9 days' FROM generate_series(1, 30) AS i;"
		      "INSERT INTO dead_letters (digest, reason, raw, instance_id) SELECT int8send(i), 'bad ' || i, "
		      "'{}', 'i' FROM generate_series(1, 50000) AS i;"
		      "INSERT INTO dead_letters (digest, event_id, reason, raw, instance_id) SELECT sha256(r), 'good', "
		      "'good', r, 'i' FROM (VALUES ('{\"event_id\":\"good\"}'::bytea)) AS v (r);"
		      "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.06); "
		      "RETURN NEW; END $$;"
		      "CREATE TRIGGER slow BEFORE UPDATE ON dead_letters EXECUTE FUNCTION slow();"
		      "CREATE TRIGGER slow BEFORE UPDATE ON events EXECUTE FUNCTION slow();"
		      "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET statement_timeout = 50', "
		      "current_database()); END $$");
	run_expect(db, 0, "dead letters: 50001", "dead-letters list --newest 0");
	run_expect(db, 0, "discarded 2000", "dead-letters discard --all --limit 2000");
	run_expect(db, 0, "persisted 1,", "dead-letters retry --reason good");
	run_expect(db, 1, "missing                   1", "audit --expected %s", path);
	run_expect(db, 0, "persisted 1, duplicates 1,", "replay %s", path);
	run_expect(db, 0, ": 30\n", "purge --older-than 7d");
}

/* Runs these words with sh. $0 is the program and $1 a path for the test. */
static struct process *start_sh(const struct database *db, const char *words)
{
	const char *program = getenv("WSONCE_TEST_BIN");
	char *path = suite_path("%d", suite_number()), *postgres;

	run_expect(db, 0, NULL, "migrate");
	postgres = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db));
	return process_start_argv(
		(const char *const[]){"sh", "-c", words, program ? program : "build/wsonce", path, NULL},
		(const char *const[]){postgres, "WSONCE_REDIS=none", NULL});
}

Test(commands, whose_reader_has_had_enough_end_without_a_word)
{
	struct database *db = database_new();
	struct process *p =
		start_sh(db, "mkfifo $1; (exec <$1) & exec 4>$1; wait; exec $0 stats duplicates --json >&4");

	cr_assert_eq(process_wait(p, 15000), 1, "%s", process_last_words(p));
	char *errors = process_errors(p);
	cr_assert_str_eq(errors, "");
}

Test(commands, that_cannot_write_what_they_found_say_so)
{
	struct database *db = database_new();
	struct process *p = start_sh(db, "exec $0 stats duplicates --json >/dev/full");

	cr_assert_eq(process_wait(p, 15000), 1, "%s", process_last_words(p));
	cr_assert_str_eq(process_last_words(p), "wsonce: cannot write to standard output\n");
}

static void expect_words(const struct database *db, const char *line, const char *words)
{
	struct process *p = start_sh(db, line);

	cr_assert_eq(process_wait(p, 15000), 1, "%s: %s", line, process_last_words(p));
	char *errors = process_errors(p);
	cr_assert_str_eq(errors, words, "%s: %s", line, errors);
}

Test(commands, that_were_started_without_standard_streams_say_so)
{
	struct database *db = database_new();
	static const char *const words[] = {"--help", "--help=json", "--version", "export --help", "help dead-letters"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		expect_words(db, suite_text("exec $0 %s >&-", words[i]), "wsonce: cannot write to standard output\n");
	expect_words(db, "exec $0 replay - --log-level error <&-", "wsonce: standard input: Bad file descriptor\n");
	expect_words(db, "exec $0 stats duplicates <&- >&-", "wsonce: cannot write to standard output\n");
	expect_words(db, "exec $0 dead-letters show 1 <&- >&- 2>&-", "");
}

Test(commands, what_a_pipe_brought_and_cannot_be_kept_is_told_with_the_reason)
{
	struct database *db = database_new();
	struct process *p = start_sh(db, "trap '' XFSZ; ulimit -f 1; seq -f '{\"event_id\":\"%g\"}' 1000 | "
					 "exec $0 audit --expected - --resubmit");

	cr_assert_eq(process_wait(p, 15000), 1, "%s", process_last_words(p));
	cr_assert(strstr(process_last_words(p), " for resubmitting: File too large\n"), "%s", process_last_words(p));
}
