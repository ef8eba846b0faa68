/* The roles of sql/roles.sql: each can do its work, and nothing else. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 20000

/* Roles are global to the server, and tests run in parallel. */
static void make_roles(void)
{
	const char *const argv[] = {
		"flock",         suite_directory(),     "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-f",
		"sql/roles.sql", database_conninfo(db), NULL};

	struct process *p = process_start_argv(argv, NULL);

	cr_assert_eq(process_wait(p, SETTLED_MS), 0, "%s", process_last_words(p));
}

static void set_up(void)
{
	db = database_new();
	make_roles();
}

TestSuite(roles, .init = set_up);

static const char *conninfo_of(const char *role)
{
	static char text[400];

	snprintf(text, sizeof text, "%s user=%s", database_conninfo(db), role);
	return text;
}

/* Runs a command as this role and expects this status and this text in its output. */
static void expect_run(const char *role, int status, const char *words, const char *part)
{
	char postgres[450], redis[200], prefix[200];
	const char *const env[] = {postgres, redis, prefix, NULL};

	snprintf(postgres, sizeof postgres, "WSONCE_POSTGRES=%s", conninfo_of(role));
	snprintf(redis, sizeof redis, "WSONCE_REDIS=%s", redisd_url(redisd_shared()));
	snprintf(prefix, sizeof prefix, "WSONCE_CLAIM_PREFIX=%s", redisd_prefix());
	struct run run = run_in(env, words);
	cr_assert_eq(run.status, status, "%s as %s: status %d: %s%s", words, role, run.status, run.output, run.errors);
	cr_assert(strstr(run.output, part) || strstr(run.errors, part), "%s as %s says: %s%s", words, role, run.output,
		  run.errors);
}

static void send_events(struct listener *l)
{
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	peer_send_text(p, "{\"event_id\":\"one\",\"payload\":1}");
	ack_expect(p, "one", "persisted");
	peer_send_text(p, "{\"event_id\":\"one\",\"payload\":1}");
	ack_expect(p, "one", "duplicate");
	peer_send_text(p, "no JSON");
	ack_expect_rejected(p, NULL, "not JSON");
	peer_send_text(p, "{\"event_id\":\"two\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(p, "two", "");
	peer_free(p);
}

/* Expects a listener to work without an error and to store all rows. */
static void expect_work(const char *flags)
{
	struct listener *l =
		listener_start(&(struct listener_options){.postgres = conninfo_of("wsonce_listener")}, "%s", flags);

	send_events(l);
	cr_assert_eq(listener_stop(l), 0);
	char *log = process_errors(listener_process(l));
	cr_assert(!strstr(log, "permission denied"), "%s", log);
}

static void expect_right(const char *role, const char *table, const char *right, int wanted)
{
	cr_assert_eq(database_long(db, "SELECT has_table_privilege('%s', '%s', '%s')", role, table, right), wanted,
		     "%s %s %s on %s", role, wanted ? "has not" : "has", right, table);
}

Test(roles, a_listener_works_as_the_listener_and_changes_nothing_that_is_stored)
{
	static const char *const rights[] = {"UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"};

	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	expect_work("--claim-ttl 30");
	expect_work("--consumer billing");
	cr_assert_eq(bench_rows(), 1);
	cr_assert_eq(bench_count("dead_letters"), 4);
	cr_assert_eq(database_long(db, "SELECT has_schema_privilege('wsonce_listener', 'public', 'CREATE')"), 0);
	for (size_t i = 0; i < sizeof rights / sizeof *rights; i++)
		expect_right("wsonce_listener", "events", rights[i], 0);
	expect_right("wsonce_listener", "dead_letters", "DELETE", 0);
	expect_right("wsonce_listener", "dead_letter_actions", "INSERT", 0);
}

Test(roles, a_listener_that_may_not_make_the_tables_says_so)
{
	char flags[] = "listen --ingest 127.0.0.1:0 --redis none";

	expect_run("wsonce_reader", 1, "migrate",
		   "permission denied for table wsonce_schema; use a role that has this right");
	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	expect_run("wsonce_reader", 2, flags, "lacks rights: ");
}

Test(roles, an_operator_does_all_other_work)
{
	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	expect_work("--claim-ttl 30");
	expect_run("wsonce_operator", 0, "dead-letters list", "not JSON");
	expect_run("wsonce_operator", 0, "dead-letters discard --all --note done", "");
	expect_run("wsonce_operator", 0,
		   "purge --older-than 1d --dead-letters-older-than 1d --actions-older-than 1d --outbox-older-than 1d",
		   "");
	expect_run("wsonce_operator", 0, "stats duplicates", "");
}

Test(roles, a_reader_reads)
{
	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	expect_work("--claim-ttl 30");
	expect_run("wsonce_reader", 0, "dead-letters list", "not JSON");
	expect_run("wsonce_reader", 1, "dead-letters discard --all --note done",
		   "permission denied for table dead_letters; use a role");
	expect_run("wsonce_reader", 0, "export", "\"wsonce_row\":1,");
	expect_right("wsonce_reader", "events", "SELECT", 1);
	expect_right("wsonce_reader", "events", "INSERT", 0);
	expect_right("wsonce_reader", "outbox", "UPDATE", 0);
	expect_right("wsonce_reader", "cursors", "SELECT", 0); /* except for its columns without secrets */
	cr_assert(database_long(db, "SELECT has_column_privilege('wsonce_reader', 'cursors', 'value', 'SELECT')"));
	cr_assert(!database_long(db, "SELECT has_column_privilege('wsonce_reader', 'cursors', 'variables', 'SELECT')"));
}

/* What listeners and commands hold for a moment is told by nobody, whatever the role of status, and whatever name they
 * have from PGAPPNAME or a pooler. But a role without rights can lock by PREPARE. */
Test(roles, a_reader_does_not_blame_a_listener)
{
	static const char held[] =
		"SET application_name = '%s'; BEGIN; PREPARE held AS SELECT FROM wsonce_epoch FOR KEY SHARE";

	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	struct database *fellow = database_open(conninfo_of("wsonce_listener"));
	database_exec(fellow, held, "orders");
	const char *const env[] = {suite_text("WSONCE_POSTGRES=%s", conninfo_of("wsonce_reader")), NULL};
	struct run run = run_in(env, "status --redis none");
	cr_assert(strstr(run.output, "no listener is running") && !strstr(run.output, "wsonce_epoch"), "%s",
		  run.output);
	struct database *stranger = database_open(conninfo_of("wsonce_reader"));
	database_exec(stranger, held, "wsonce");
	expect_run("wsonce_reader", 2, "status",
		   suite_text("session %ld of role wsonce_reader (wsonce) locks wsonce_epoch",
			      database_long(stranger, "SELECT pg_backend_pid()")));
	database_free(stranger);
	database_free(fellow);
}

/* The tables were created without the roles. */
Test(roles, an_older_fleet_can_take_up_the_roles)
{
	struct listener *l = listener_start(&(struct listener_options){.database = db}, NULL);

	cr_assert_eq(listener_stop(l), 0);
	make_roles();
	expect_run("wsonce_owner", 0, "migrate", "the schema is at version");
	expect_work("--claim-ttl 30");
}

/* CVE-2018-1058: our statements would use objects that hide ours. */
Test(roles, nobody_but_the_owner_makes_objects)
{
	static const char *const roles[] = {"wsonce_listener", "wsonce_operator", "wsonce_reader", "public"};

	database_exec(db, "GRANT CREATE ON SCHEMA public TO PUBLIC"); /* as it was before Postgres 15 */
	make_roles();
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		cr_assert_eq(database_long(db, "SELECT has_schema_privilege('%s', 'public', 'CREATE')", roles[i]), 0,
			     "%s may", roles[i]);
	cr_assert_eq(database_long(db, "SELECT has_schema_privilege('wsonce_owner', 'public', 'CREATE')"), 1);
}

/* What docker-compose.yml runs at the first start of its Postgres. */
Test(roles, compose_gives_two_of_them_passwords)
{
	static const char script[] = "OWNER_PASSWORD=\"an o'wner\" LISTENER_PASSWORD=x flock \"$1\" "
				     "psql -qX -v ON_ERROR_STOP=1 -f sql/compose-passwords.sql \"$2\"";
	const char *const argv[] = {"sh", "-c", script, "sh", suite_env("WSONCE_TEST_DIR"), database_conninfo(db),
				    NULL};

	cr_assert_eq(process_run(argv, SETTLED_MS), 0);
	cr_assert_eq(bench_count("pg_authid WHERE rolname IN ('wsonce_owner', 'wsonce_listener') "
				 "AND rolpassword LIKE 'SCRAM%%'"),
		     2);
}
