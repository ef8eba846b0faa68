/* Every setting that can have a password or token gets one, and none may appear where others can look. */
#include "support.h"
#include "bench.h"

#define PLANT      "planted" /* part of each secret */
#define SETTLED_MS 20000

TestSuite(secrets, .init = bench_open);

static void expect_clean(const char *where, const char *text)
{
	cr_assert_not_null(text, "%s is missing", where);
	cr_assert_null(strstr(text, PLANT), "in %s: %.3000s", where, text);
}

static void expect_clean_process(const struct process *p)
{
	char *log = process_errors(p), *output = process_output(p);

	expect_clean("the log", log);
	expect_clean("the output", output);
	expect_clean("the command line", suite_read(suite_text("/proc/%d/cmdline", (int)process_id(p))));
	expect_clean("the name", suite_read(suite_text("/proc/%d/comm", (int)process_id(p))));
}

static void expect_clean_pages(struct listener *l)
{
	static const char *const paths[] = {"/readyz", "/healthz", "/metrics", "/api/status", "/"};

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		char *page = listener_http(l, paths[i], NULL);

		expect_clean(paths[i], page ? page : "");
	}
}

/* Returns the conninfo of the test's database with a password, for which the server does not ask. */
static const char *conninfo(void)
{
	static char text[400];

	snprintf(text, sizeof text, "%s password=planted-by-postgres", database_conninfo(db));
	return text;
}

static void expect_clean_listener(struct listener *l)
{
	expect_clean_process(listener_process(l));
	expect_clean_pages(l);
	listener_stop(l);
	expect_clean("the whole log", process_errors(listener_process(l)));
}

Test(secrets, are_shown_nowhere_while_all_goes_well)
{
	struct listener *l =
		listener_start(&(struct listener_options){.database = db, .postgres = conninfo()},
			       "--ingest-token planted-token-of-bytes --log-level debug --log-format json");

	expect_clean_listener(l);
}

Test(secrets, in_variables_of_a_producers_profile_are_not_shown)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db},
					    "--ingest-profile nostr?relay=planted-in-a-profile");

	await(bench_count("wsonce_listeners WHERE report IS NOT NULL") > 0, SETTLED_MS);
	cr_assert_eq(bench_count("wsonce_listeners WHERE report::text LIKE '%%planted%%'"), 0);
	expect_clean_listener(l);
}

/* A feed that cannot be reached, a Redis that refuses the password, a Postgres that is not there. */
Test(secrets, are_shown_nowhere_while_nothing_can_be_reached)
{
	char source[100], redis[200];

	snprintf(source, sizeof source, "ws://u:planted-1@127.0.0.1:%d/planted-2/x?planted-3=y", port_reserve());
	snprintf(redis, sizeof redis, "redis://:planted-by-redis@127.0.0.1:%d/0", redisd_port(redisd_shared()));
	struct listener *l =
		listener_start(&(struct listener_options){.postgres = "host=/nonexistent password=planted-4",
							  .source = source,
							  .redis = redis,
							  .without_waiting = true},
			       "--log-level debug");

	await(listener_has_logged(l, "redis refused the login"), SETTLED_MS);
	await(listener_has_logged(l, "url=ws://***@127.0.0.1"), SETTLED_MS);
	await(listener_status(l, "/readyz") == 503, SETTLED_MS);
	expect_clean_listener(l);
}

Test(secrets, that_a_feed_sends_back_are_not_shown)
{
	struct feed *feed = feed_new();
	const char *token = "planted-1234567890123456789012345678901234567890";
	char *url = suite_text("ws://127.0.0.1:%d/moved?token=%s%s", feed_port(feed), token, token);

	feed_answer(feed, "/moved",
		    suite_text("HTTP/1.1 301 M\r\nLocation: ws://other.example/\r\nContent-Length: 300\r\n\r\n"
			       "%80s<a href=\"ws://other.example/moved?token=%s%s\">",
			       "", token, token));
	struct listener *l = listener_start(&(struct listener_options){.database = db, .without_waiting = true},
					    "--source %s --source %s?t=%s", url, feed_url(feed), token);

	await(listener_has_logged(l, "redirect"), SETTLED_MS);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	feed_sendf(feed, "{\"you\": \"asked for\", \"url\": \"/feed?t=%s\"}", token);
	await(listener_has_logged(l, "became dead letters"), SETTLED_MS);
	expect_clean_listener(l);
}

/* Postgres quotes the value that its column cannot have. */
Test(secrets, that_a_feed_sends_back_to_postgres_are_not_shown)
{
	struct feed *feed = feed_new();
	struct listener *l;

	database_exec(db, "ALTER TABLE events ADD price numeric GENERATED ALWAYS AS ((payload->>'price')::numeric) "
			  "STORED");
	l = listener_start(&(struct listener_options){.database = db, .without_waiting = true},
			   "--max-attempts 1 --source %s?t=planted-1234567890123456", feed_url(feed));
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	for (int i = 0; i < 10; i++)
		feed_sendf(feed,
			   "{\"event_id\": \"e-%d\", \"event_type\": \"t\", \"payload\": {\"price\": "
			   "\"planted-1234567890123456\\u001b\"}}",
			   i);
	await(listener_has_logged(l, "became dead letters"), SETTLED_MS);
	await(strstr(listener_http(l, "/readyz", NULL), "invalid input syntax"), SETTLED_MS);
	cr_assert_not(strchr(listener_http(l, "/readyz", NULL), '\x1b'));
	expect_clean_listener(l);
}

Test(secrets, in_files_of_their_own_work)
{
	char *files = suite_text("--postgres-file %s --redis-file %s --marks-key-file %s",
				 suite_file("postgres", conninfo()), suite_file("redis", redisd_url(redisd_shared())),
				 suite_file("key", "planted-key-of-marks\n"));
	struct listener *l = listener_start(
		&(struct listener_options){.postgres = "host=/nonexistent", .redis = "redis://127.0.0.1:1"},
		"%s --ingest-token-file %s --log-level debug", files, suite_file("token", "planted-token-of-bytes\n"));
	expect_clean_listener(l);
	struct run run = run_in(NULL, suite_text("dead-letters list %s", files));
	cr_assert_eq(run.status, 0, "%s", run.errors);
}

Test(secrets, of_an_operators_command_are_in_no_error)
{
	struct run run =
		run_in(NULL, "dead-letters list --redis none --postgres postgres://u:planted-1@/x?host=/nonexistent");

	cr_assert_neq(run.status, 0);
	expect_clean("the errors", run.errors);
	expect_clean("the errors", run_in(NULL, "stats redis://:planted@h").errors);
}

/* The environment contains secrets, too. The kernel shows it to other processes of the same user, unless the process is
 * not dumpable: then root owns its files in /proc. */
Test(secrets, no_process_of_the_same_user_may_look_into_the_listener)
{
	const char *program = getenv("WSONCE_TEST_BIN");
	const char *const argv[] = {program ? program : "build/wsonce",
				    "listen",
				    "--redis",
				    "none",
				    "--postgres",
				    "host=/nonexistent",
				    "--ingest",
				    "127.0.0.1:0",
				    NULL};
	struct stat seen;
	char *log = NULL;

	if (geteuid() != 0 || strstr(argv[0], "san"))
		cr_skip_test("only root can start it as somebody else, and sanitizers look into their own memory");
	struct process *p = process_start(&(struct process_options){.argv = argv, .uid = 65534, .gid = 65534});
	await((log = process_errors(p), strstr(log, "ingest is open")), SETTLED_MS, "%s", log);
	char *path = suite_text("/proc/%d/environ", (int)process_id(p));
	cr_assert_eq(stat(path, &seen), 0);
	cr_assert_eq(seen.st_uid, 0, "%s belongs to user %d", path, (int)seen.st_uid);
}

/* --- cores --- */

static bool has_core(const char *directory)
{
	struct dirent *entry;
	bool is_there = false;
	DIR *d = opendir(directory);

	while (d && (entry = readdir(d)))
		is_there |= strncmp(entry->d_name, "core", 4) == 0;
	if (d)
		closedir(d);
	return is_there;
}

/* Makes it crash. Returns true if that left a core where it ran. */
static bool leaves_core(struct process *p, const char *directory)
{
	process_signal(p, SIGABRT);
	cr_assert_eq(process_wait(p, SETTLED_MS), 128 + SIGABRT);
	return has_core(directory);
}

Test(secrets, are_in_no_core)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	const char *program = getenv("WSONCE_TEST_BIN");
	char directory[] = "/tmp/wsonce-core-XXXXXX", path[4096], *log = NULL;
	const char *const sleeper[] = {"sleep", "60", NULL};
	const char *const argv[] = {realpath(program ? program : "build/wsonce", path),
				    "listen",
				    "--redis",
				    "none",
				    "--postgres",
				    "host=/nonexistent password=planted-1",
				    "--ingest",
				    "127.0.0.1:0",
				    NULL};
	const char *const remove[] = {"rm", "-r", directory, NULL};

	if (strstr(path, "san"))
		cr_skip_test("sanitizers look into their own memory");
	cr_assert_not_null(mkdtemp(directory));
	if (setrlimit(RLIMIT_CORE, &all) ||
	    !leaves_core(process_start(&(struct process_options){.argv = sleeper, .directory = directory}),
			 directory)) {
		process_run(remove, SETTLED_MS);
		cr_skip_test("no program leaves a core here");
	}
	process_run(remove, SETTLED_MS);
	cr_assert_eq(mkdir(directory, 0700), 0);
	struct process *p = process_start(&(struct process_options){.argv = argv, .directory = directory});
	await((log = process_errors(p), strstr(log, "ingest is open")), SETTLED_MS, "%s", log);
	cr_assert_not(leaves_core(p, directory), "a core is in %s", directory);
	process_run(remove, SETTLED_MS);
}
