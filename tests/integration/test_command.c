/* The command line: help, version, settings from flags, environment and file, errors about wrong ones, and errors that
 * prevent a start. */
#include "support.h"
#include "bench.h"

#define END_MS 15000

static void expect_refusal(const char *words, const char *name)
{
	run_expect_refusal_in(NULL, words, name);
}

/* ---- profiles ---- */

Test(command, profile_check_says_what_a_profile_reads)
{
	static const char profile[] = "{\"name\": \"n\\u001b[31m\", \"url\": \"ws://localhost/${env:PATH}\", "
				      "\"headers\": {\"A\": \"${env:PATH}\", "
				      "\"B\": \"x ${file:/etc/shadow}\", \"C\": \"${file:a\\u001b[1A\\u001b[2Kb}\"}, "
				      "\"rules\": [{\"name\": \"r\", \"action\": \"event\", \"id\": [[\"/i\"]]}]}";
	struct run run = run_in(NULL, suite_text("profile check %s", suite_file("profile", profile)));

	cr_assert_eq(run.status, 0, "%s", run.errors);
	cr_assert(strstr(run.output,
			 "n\\x1b[31m: 1 rule, no fault found\nreads the variable PATH\nreads the file /etc/shadow\n"
			 "reads the file a\\x1b[1A\\x1b[2Kb\n"),
		  "%s", run.output);
}

/* Whoever wrote a profile that is only looked at has no power over the terminal. */
Test(command, profile_list_and_show_print_no_commands_for_a_terminal)
{
	const char *const env[] = {suite_text("WSONCE_PROFILES=%s", suite_directory()), NULL};
	struct run run;

	suite_file("evil.json", "{\"about\": \"a\\u001b[2J\\nb\xc2\x9b\", \"url\": \"ws://localhost\", "
				"\"default\": \"ignore\", \"rules\": []}");
	run = run_in(env, "profile list");
	cr_assert_str_eq(run.output, "evil                   a\\x1b[2J\\x0ab\\xc2\\x9b\n", "%s", run.errors);
	run = run_in(env, "profile show evil");
	cr_assert(strstr(run.output, "\\nb\\u009b\", "), "%s", run.output);
}

Test(command, profile_check_suggests_where_a_recording_has_a_part)
{
	const char *recording =
		suite_file("r.ndjson", "{\"k\": \"obs\", \"body\": {\"a\": [], \"meta\": {\"uid\": \"u1\"}}}\n");
	const char *profile = suite_file(
		"p.json", "{\"name\": \"tides\", \"url\": \"ws://localhost\", \"rules\": [{\"name\": \"obs\", "
			  "\"action\": \"event\", \"id\": [[\"/body/uid\"]], \"time\": \"/at\"}]}");
	struct run run = run_in(NULL, suite_text("profile check %s --frames %s", profile, recording));

	cr_assert_eq(run.status, 0, "%s", run.errors);
	cr_assert_str_eq(run.errors,
			 "wsonce: id: rule obs looks at /body/uid, found in 0 of 1 messages; did you mean "
			 "/body/meta/uid?\nwsonce: time: rule obs looks at /at, found in 0 of 1 messages\n");
	cr_assert_str_eq(run.output, "");
}

/* A pipe in a profile of a stranger, to which nobody writes. */
Test(command, profile_check_does_not_wait_for_a_file_that_a_profile_names, .init = bench_open, .fini = bench_close,
     .timeout = 20)
{
	char *profile =
		suite_file("p.json", "{\"url\": \"ws://localhost\", \"binary\": \"zstd\", "
				     "\"binary_dictionary\": \"pipe\", \"default\": \"ignore\", \"rules\": []}");

	cr_assert_eq(mkfifo(suite_path("pipe"), 0600), 0);
	struct run run = run_in(NULL, suite_text("profile check %s", profile));
	cr_assert_eq(run.status, 2);
	cr_assert(strstr(run.errors, "pipe is not a zstd dictionary"), "%s", run.errors);
}

Test(command, what_a_feed_is_tried_with_is_checked)
{
	static const struct {
		const char *words, *said;
		int status;
	} cases[] = {
		{"profile check coinbase", "coinbase: ", 0},
		{"profile check tests/feeds/../../profiles/coinbase.json", "coinbase: ", 0},
		{"profile check coinbas", "coinbas: neither a file nor a profile in ", 2},
		{"profile check coinbas", "; did you mean \"coinbase\"?\n", 2},
		{"profile check ./coinbase", "./coinbase: cannot be read: No such file or directory\n", 2},
		{"try --profile coinbas", "; did you mean \"coinbase\"?\n", 2},
		{"record --profile coinbas x", "; did you mean \"coinbase\"?\n", 2},
		{"try --profile coinbase --frames /tmp", "/tmp: is a folder\n", 1},
		{"try --profile coinbase --frames f --connections 0", "--connections: must be line numbers", 2},
		{"try --profile coinbase --frames f --connections 5,2", "--connections: must be line numbers", 2},
		{"try --profile coinbase --frames f --seconds 5", "--seconds does not go with --frames", 2},
		{"try --profile coinbase --now 5", "--connections and --now go with --frames\n", 2},
		{"record --profile coinbase Makefile", "Makefile is there already: give the name of a new file\n", 1},
		{"listen --ingest-profile coinbas", "; did you mean \"coinbase\"?\n", 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run run = run_in(NULL, cases[i].words);

		cr_assert_eq(run.status, cases[i].status, "%s: %s", cases[i].words, run.errors);
		cr_assert(strstr(run.output, cases[i].said) || strstr(run.errors, cases[i].said), "%s: %s%s",
			  cases[i].words, run.output, run.errors);
	}
}

Test(command, a_recording_without_a_message_leaves_no_file)
{
	char *profile = suite_file("refused.json", "{\"url\": \"ws://127.0.0.1:1/\", \"rules\": [{\"name\": \"r\"}]}"),
	     *path = suite_path("recording");
	struct run run = run_in(NULL, suite_text("record --profile %s --seconds 1 %s", profile, path));

	cr_assert_eq(run.status, 1);
	cr_assert(strstr(run.errors, "nothing was recorded: "), "%s", run.errors);
	cr_assert_neq(access(path, F_OK), 0);
}

/* ---- help ---- */

Test(command, help_goes_to_standard_output)
{
	struct run run = run_in(NULL, "--help");

	cr_assert_eq(run.status, 0);
	cr_assert(strstr(run.output, "wsonce COMMAND") && strstr(run.output, "listen"));
	cr_assert_str_eq(run.errors, "");
}

Test(command, version_is_one_line)
{
	struct run run = run_in(NULL, "--version");
	int major, minor, patch;

	cr_assert_eq(run.status, 0);
	cr_assert(run_is_one_line(run.output));
	cr_assert_eq(sscanf(run.output, "wsonce %d.%d.%d", &major, &minor, &patch), 3);
}

Test(command, a_command_is_needed_and_must_be_known)
{
	struct run run = run_in(NULL, "");

	cr_assert_eq(run.status, 2);
	cr_assert(strstr(run.errors, "usage"));
	expect_refusal("lisen", "lisen");
	expect_refusal("--listen", "--listen");
}

/* ---- wrong settings ---- */

/* One case for each origin, and for each check that only libpq or the whole program makes. tests/unit/test_config.c
 * tests the values. */
Test(command, a_wrong_setting_is_one_line_that_names_it)
{
	static const char *const number[] = {"WSONCE_CLAIM_TTL=soon", NULL};
	static const char *const url[] = {"WSONCE_SOURCE=ws://127.0.0.1:1/,ftp://127.0.0.1:1/", NULL};
	static const struct {
		const char *const *env;
		const char *words;
		const char *name;
	} wrong[] = {
		{NULL, "--sorce ws://127.0.0.1:1/", "--sorce"},
		{NULL, "--ingest", "--ingest"},
		{NULL, "", "--source"},
		{NULL, "--ingest 127.0.0.1:1 --claim-ttl ten", "--claim-ttl"},
		{NULL, "--ingest 127.0.0.1:1 --redis none --postgres no_such_keyword=1", "--postgres"},
		{NULL, "--ingest 127.0.0.1:1 --redis none --postgres postgresql://[::1/x", "--postgres"},
		{NULL, "--ingest 127.0.0.1:1 --ingest-cert README.md --ingest-key /no/such/file", "--ingest-key"},
		{number, "--ingest 127.0.0.1:1", "WSONCE_CLAIM_TTL"},
		{url, "--ingest 127.0.0.1:1", "WSONCE_SOURCE"},
	};
	char line[200];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(line, sizeof line, "listen %s", wrong[i].words);
		run_expect_refusal_in(wrong[i].env, line, wrong[i].name);
	}
}

static bool is_ready(int admin_port)
{
	char *page = http_get(admin_port, "/readyz", END_MS, NULL);
	return page && strncmp(page, "ready", 5) == 0;
}

Test(command, everything_may_come_from_the_environment, .init = bench_open)
{
	char conninfo[600], admin[60], ingest[60], prefix[200], redis[100];
	struct redisd *own = redisd_new();
	int admin_port = port_reserve(), ingest_port = port_reserve();
	const char *const env[] = {conninfo, admin, ingest, prefix, redis, NULL};
	const char *argv[] = {getenv("WSONCE_TEST_BIN") ? getenv("WSONCE_TEST_BIN") : "build/wsonce", "listen", NULL};

	snprintf(conninfo, sizeof conninfo, "WSONCE_POSTGRES=%s", database_conninfo(db));
	snprintf(admin, sizeof admin, "WSONCE_ADMIN=127.0.0.1:%d", admin_port);
	snprintf(ingest, sizeof ingest, "WSONCE_INGEST=localhost:%d", ingest_port);
	snprintf(prefix, sizeof prefix, "WSONCE_CLAIM_PREFIX=%s", redisd_prefix());
	snprintf(redis, sizeof redis, "WSONCE_REDIS=%s", redisd_unix_url(own));
	struct process *process = process_start_argv(argv, env);
	struct peer *p = NULL;
	await(is_ready(admin_port), END_MS, "%s", process_last_words(process));
	await((p = peer_open(ingest_port, "/events", "wsonce.ack.v1", NULL, NULL)), END_MS, "%s",
	      process_last_words(process));
	peer_send_text(p, "{\"event_id\":\"from-env\"}");
	ack_expect(p, "from-env", "persisted");
	cr_assert_eq(redisd_count(own, redisd_prefix()), 1);
}

/* ---- what keeps a listener from starting ---- */

/* Expects this exit status and this error. */
static void expect_end(const struct listener_options *options, const char *flags, int status, const char *reason)
{
	struct listener_options o = *options;

	o.without_waiting = true;
	struct listener *l = listener_start(&o, "%s", flags);
	struct process *p = listener_process(l);
	cr_assert_eq(process_wait(p, END_MS), status, "%s", process_last_words(p));
	cr_assert(strstr(process_last_words(p), reason), "no \"%s\" in: %s", reason, process_last_words(p));
	listener_free(l);
}

static void expect_no_start(const struct listener_options *options, const char *flags, const char *reason)
{
	expect_end(options, flags, 1, reason);
}

Test(command, an_address_that_cannot_be_listened_on_is_named, .init = bench_open)
{
	int port = port_reserve(), fd = port_listen(port);
	char *address = suite_text("127.0.0.1:%d", port);
	expect_no_start(&(struct listener_options){.database = db, .ingest_port = port}, "", address);
	expect_no_start(&(struct listener_options){.database = db, .ingest_port = port}, "", "--ingest");
	expect_no_start(&(struct listener_options){.database = db, .admin_port = port}, "", "--admin");
	expect_no_start(&(struct listener_options){.database = db, .without_ingest = true},
			"--ingest 192.0.2.1:9000 --ingest-open", "192.0.2.1:9000: Cannot assign requested address");
	close(fd);
}

Test(command, a_schema_newer_than_the_program_is_an_error, .init = bench_open)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db}, NULL);

	cr_assert_eq(listener_stop(l), 0);
	database_exec(db, "INSERT INTO wsonce_schema (version) SELECT max(version) + 1 FROM wsonce_schema");
	expect_no_start(&(struct listener_options){.database = db}, "", "schema version");
}

/* Creates a database with this encoding on the server of db. Returns its conninfo. */
static char *create_database(const char *encoding)
{
	char *name = database_text(db, "SELECT lower(current_database() || '_%s')", encoding), *conninfo;

	database_exec(db, "CREATE DATABASE \"%s\" ENCODING '%s' TEMPLATE template0 LOCALE 'C'", name, encoding);
	conninfo = suite_text("%s dbname=%s", suite_env("WSONCE_TEST_POSTGRES"), name);
	return conninfo;
}

Test(command, a_database_that_is_not_utf8_is_warned_about_and_what_it_cannot_hold_is_a_dead_letter, .init = bench_open)
{
	char *conninfo = create_database("LATIN1");
	struct database *latin = database_open(conninfo);
	struct listener *l = listener_start(&(struct listener_options){.postgres = conninfo}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	char *log = process_errors(listener_process(l));
	cr_assert(strstr(log, "level=warn") && strstr(log, "encoding=LATIN1"), "%s", log);
	peer_send_text(p, "{\"event_id\":\"café\",\"payload\":\"é\"}");
	ack_expect(p, "café", "persisted");
	peer_send_text(p, "{\"event_id\":\"日本\",\"payload\":\"x\"}");
	ack_expect_rejected(p, "日本", "LATIN1");
	peer_send_text(p, "{\"event_id\":\"last\",\"payload\":\"日本\"}");
	ack_expect_rejected(p, "last", "LATIN1");
	cr_assert_eq(database_long(latin, "SELECT count(*) FROM events"), 1);
	cr_assert_eq(database_long(latin, "SELECT count(*) FROM dead_letters"), 2);
	run_expect(latin, 0, "dead letters: 2, reasons: 1", "dead-letters list");
	run_expect(latin, 0, NULL, "dead-letters list --deliveries");
}

/* initdb makes such a database where LC_ALL is C. It takes any bytes, but no escapes of other characters. */
Test(command, an_escape_that_sql_ascii_cannot_hold_is_a_dead_letter_at_once, .init = bench_open)
{
	char *conninfo = create_database("SQL_ASCII");
	struct listener *l = listener_start(&(struct listener_options){.postgres = conninfo}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	peer_send_text(p, "{\"event_id\":\"é\",\"payload\":\"é\"}");
	ack_expect(p, "é", "persisted");
	peer_send_text(p, "{\"event_id\":\"escaped\",\"payload\":\"\\u00e9\"}");
	ack_expect_rejected(p, "escaped", "SQL_ASCII");
	char *log = process_errors(listener_process(l));
	cr_assert_not(strstr(log, "postgres error") || strstr(log, "cannot store"), "%s", log);
}

Test(command, many_listeners_may_start_at_once_on_an_empty_database, .init = bench_open)
{
	struct listener *fleet[8];

	for (int i = 0; i < 8; i++)
		fleet[i] = listener_start(
			&(struct listener_options){.database = db, .without_waiting = true},
			"--ingest-max-connections 100"); /* avoids a warning about the limit of open files */
	for (int i = 0; i < 8; i++)
		listener_wait_ready(fleet[i]);
	cr_assert_eq(bench_count("wsonce_schema WHERE version = 1"), 1);
	for (int i = 0; i < 8; i++) {
		char *log = process_errors(listener_process(fleet[i]));

		cr_assert(!strstr(log, "to=down") && !strstr(log, "connection is lost") && !strstr(log, "level=error"),
			  "%s", log);
		listener_free(fleet[i]);
	}
}

/* ---- the log ---- */

static void check_json_line(const char *line)
{
	json_error_t error;
	json_t *root = json_loads(line, JSON_REJECT_DUPLICATES, &error);

	cr_assert(json_is_object(root), "%s: %s", error.text, line);
	cr_assert(json_is_string(json_object_get(root, "time")), "%s", line);
	cr_assert(json_is_string(json_object_get(root, "level")), "%s", line);
	cr_assert(json_is_string(json_object_get(root, "event")), "%s", line);
}

/* Names with characters that JSON escapes, a source that refuses, odd messages, a garbled handshake. */
Test(command, a_variable_that_is_no_setting_is_told, .init = bench_open)
{
	const char *const env[] = {"WSONCE_CLAIM_TTLL=5", "WSONCE_BATCH_MAX=100", "HOOK=x", NULL};
	struct listener *l = listener_start(&(struct listener_options){.database = db, .env = env}, NULL);
	char *log = process_errors(listener_process(l)), *line = strstr(log, "unknown WSONCE_ variables");

	cr_assert(line, "%s", log);
	*strchrnul(line, '\n') = '\0';
	cr_assert(strstr(line, "WSONCE_CLAIM_TTLL; did you mean WSONCE_CLAIM_TTL?"), "%s", line);
	cr_assert(!strstr(line, "WSONCE_BATCH_MAX") && !strstr(line, "HOOK"), "%s", line);
	for (size_t i = 0; i < 3; i++) {
		static const char *const misspelled[] = {"WSONCE_POSTGRESS=host=/nowhere",
							 "WSONCE_REDIS_PORT=tcp://10.0.0.1:6379", NULL};
		struct run run = run_in(misspelled, (const char *const[]){"lines --since 1h", "listen", "check"}[i]);

		cr_assert(strstr(run.errors,
				 "wsonce: WSONCE_POSTGRESS is not a setting; did you mean WSONCE_POSTGRES?\n"),
			  "%s", run.errors);
		cr_assert_not(strstr(run.errors, "WSONCE_REDIS_PORT"), "%s", run.errors);
	}
}

Test(command, a_json_log_is_one_object_per_line, .init = bench_open)
{
	static const char *const env[] = {"WSONCE_INSTANCE_ID=quote \" backslash \\ tab \t caf\xc3\xa9", NULL};
	struct listener *l = listener_start(&(struct listener_options){.database = db, .env = env},
					    "--log-format json --log-level debug");
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	char *at;
	int lines = 0;

	peer_send_text(p, "{\"event_id\":\"\\\"\\n\",\"payload\":\"\\u0000\"}");
	ack_read(p, END_MS);
	peer_free(p);
	p = peer_dial(listener_ingest_port(l));
	peer_send_raw(p, "GET \xff\"\\\x01 HTTP/1.1\r\n\r\n", 19);
	peer_recv_close(p, END_MS);
	peer_free(p);
	cr_assert_eq(listener_stop(l), 0);
	char *log = process_errors(listener_process(l));
	for (char *line = strtok_r(log, "\n", &at); line; line = strtok_r(NULL, "\n", &at), lines++)
		check_json_line(line);
	cr_assert_gt(lines, 5);
}

static size_t line_count(struct listener *l)
{
	char *log = process_errors(listener_process(l));
	size_t n = 0;

	for (const char *c = log; *c; c++)
		n += *c == '\n';
	return n;
}

Test(command, no_message_has_a_line_of_its_own_at_info, .init = bench_open)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db}, NULL);
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	size_t before = line_count(l);

	for (int i = 0; i < 50; i++) {
		peer_sendf(p, "{\"event_id\":\"good-%d\"}", i / 2);
		peer_sendf(p, "{\"event_id\":\"nul-%d\",\"payload\":\"\\u0000\"}", i);
		peer_sendf(p, "garbage %d", i);
	}
	for (int i = 0; i < 150; i++)
		ack_read(p, END_MS);
	cr_assert_lt(line_count(l), before + 3, "%s", process_last_words(listener_process(l)));
}

/* ---- the limit of open files ---- */

static const char *const limited =
	"exec 2>&1; ulimit -n 300; exec \"${WSONCE_TEST_BIN:-build/wsonce}\" listen --redis none "
	"--postgres host=/nonexistent --ingest 127.0.0.1:0 --ingest-max-connections \"$0\"";

static bool starts_with_warning(const char *connections)
{
	const char *const argv[] = {"sh", "-c", limited, connections, NULL};
	struct process *p = process_start_argv(argv, NULL);
	char *log = NULL;

	await((log = process_output(p), strstr(log, "ingest is open")), END_MS);
	bool is_warned = strstr(log, "files=300 producers=177");
	cr_assert_eq(is_warned, strstr(log, "ulimit -n") != NULL, "%s", log);
	process_free(p);
	return is_warned;
}

/* Some containers have a soft limit of a thousand million, and libwebsockets makes tables of that size. */
Test(command, a_limit_of_open_files_far_above_the_need_is_lowered)
{
	static const char *const generous =
		"ulimit -Sn \"$(ulimit -Hn)\"; exec \"${WSONCE_TEST_BIN:-build/wsonce}\" listen --redis none "
		"--postgres host=/nonexistent --ingest 127.0.0.1:0 --ingest-max-connections 236 "
		"--ingest-max-handshakes 1000";
	const char *const argv[] = {"sh", "-c", generous, NULL};
	struct process *p = process_start_argv(argv, NULL);
	char *limits, *log = NULL;

	await((log = process_errors(p), strstr(log, "ingest is open")), END_MS);
	limits = suite_read(suite_text("/proc/%d/limits", (int)process_id(p)));
	cr_assert(strstr(limits, "Max open files            1300 "), "%s", limits);
}

Test(command, a_limit_of_open_files_below_the_producers_allowed_is_said)
{
	cr_assert(starts_with_warning("178"));
	cr_assert_not(starts_with_warning("177"));
}

Test(command, a_limit_of_open_files_that_is_no_use_ends_the_start)
{
	static const char *const tiny = "ulimit -n 20; exec \"${WSONCE_TEST_BIN:-build/wsonce}\" listen --redis none "
					"--postgres host=/nonexistent --source ws://127.0.0.1:1/";
	struct process *p = process_start_argv((const char *const[]){"sh", "-c", tiny, NULL}, NULL);

	cr_assert_eq(process_wait(p, END_MS), 1);
	cr_assert(strstr(process_errors(p), "a listener needs 64 open files, and the limit (ulimit -n) is 20"));
}
