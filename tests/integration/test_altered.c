/* The database is altered under a running listener: its unique key is dropped, its rights are revoked. The listener
 * logs that once, is not ready, stores nothing unsafe, and continues by itself once the database is repaired. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000
#define COPIED  200 /* rows that go by COPY */

static char *role, *conninfo;

/* Roles belong to the whole server, so each test has its own. */
static void make_role(void)
{
	role = database_text(db, "SELECT current_database() || '_user'");
	database_exec(db,
		      "CREATE ROLE \"%s\" LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO \"%s\"; "
		      "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \"%s\"",
		      role, role, role);
	conninfo = suite_text("%s user=%s", database_conninfo(db), role);
}

static void start_on(struct database *fresh)
{
	db = fresh;
	run_expect(db, 0, NULL, "migrate");
	make_role();
	bench_serve((struct listener_options){.postgres = conninfo, .redis = "none"}, NULL);
}

static void set_up(void)
{
	start_on(database_new());
}

/* Not with partitions, into which only claimed rows are copied. */
static void set_up_plain(void)
{
	start_on(database_empty_new());
}

static void tear_down(void)
{
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
	database_exec(db, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
}

TestSuite(altered, .init = set_up, .fini = tear_down, .timeout = 120);
TestSuite(altered_plain, .init = set_up_plain, .fini = tear_down, .timeout = 120);

static void send_event(const char *id)
{
	cr_assert(peer_sendf(producer, "{\"event_id\":\"%s\",\"payload\":1}", id));
}

/* Sends all rows as one batch, which waits until a dead letter is written. */
static void send_batch(void)
{
	struct database *lock = database_open(database_conninfo(db));
	double received = listener_metric(listener, "wsonce_received_total");

	database_exec(lock, "BEGIN; LOCK TABLE dead_letters");
	cr_assert(peer_send_text(producer, "no JSON"));
	await(listener_metric(listener, "wsonce_events{state=\"dead_lettering\"}") == 1, WAIT_MS);
	for (int i = 0; i < COPIED; i++)
		cr_assert(peer_sendf(producer, "{\"event_id\":\"e-%03d\",\"payload\":1}", i));
	await(listener_metric(listener, "wsonce_received_total") == received + COPIED + 1, WAIT_MS);
	database_exec(lock, "COMMIT");
	database_free(lock);
	ack_expect_rejected(producer, NULL, "not JSON");
}

static void expect_acks(const char *status)
{
	for (int i = 0; i < COPIED; i++) {
		struct ack *ack = ack_read(producer, WAIT_MS);

		cr_assert_str_eq(ack->status, status);
	}
}

static int warnings(const char *part)
{
	char *log = process_errors(listener_process(listener));
	int n = 0;

	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		n += strstr(line, "cannot use postgres") && strstr(line, part);
	return n;
}

static long sessions(void)
{
	return database_long(db, "SELECT sessions FROM pg_stat_database WHERE datname = current_database()");
}

/* Expects it not to be ready, with the reason in /readyz and in a single log line, however often it tries. */
static void expect_away(const char *reason)
{
	await(listener_status(listener, "/readyz") == 503 && listener_page_has(listener, "/api/status", reason),
	      WAIT_MS, "%s", process_last_words(listener_process(listener)));
	long before = sessions();
	await(sessions() >= before + 3, WAIT_MS, "it does not try again");
	cr_assert_eq(warnings(reason), 1, "%d warnings", warnings(reason));
}

static void expect_back(void)
{
	await(listener_status(listener, "/readyz") == 200, WAIT_MS, "%s",
	      process_last_words(listener_process(listener)));
}

/* --- the key --- */

static void drop_key(void)
{
	database_drop_key(db);
}

static void restore_key(void)
{
	database_exec(db, "ALTER TABLE events ADD UNIQUE (event_id)");
}

Test(altered_plain, without_the_key_no_batch_is_stored_twice_by_copy)
{
	send_batch();
	expect_acks("persisted");
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_total"), 1);
	drop_key();
	send_batch();
	expect_away("lets an event be stored twice");
	cr_assert_eq(listener_metric(listener, "wsonce_copy_statements_refused_total"), 1);
	cr_assert_eq(bench_rows(), COPIED);
	restore_key();
	expect_acks("duplicate");
	expect_back();
	cr_assert_eq(bench_rows(), COPIED);
}

Test(altered, without_the_key_no_event_is_stored)
{
	drop_key();
	send_event("a");
	expect_away("lets an event be stored twice");
	cr_assert_eq(bench_rows(), 0);
	restore_key();
	ack_expect(producer, "a", "persisted");
	expect_back();
}

/* --- rights --- */

static void take_away(const char *right, const char *table)
{
	database_exec(db, "REVOKE %s ON %s FROM \"%s\"", right, table, role);
}

static void give(const char *right, const char *table)
{
	database_exec(db, "GRANT %s ON %s TO \"%s\"", right, table, role);
}

Test(altered, a_right_that_a_statement_misses_is_named_until_it_is_granted)
{
	take_away("INSERT", "events");
	send_event("a");
	expect_away("GRANT INSERT ON public.events TO");
	give("INSERT", "events");
	ack_expect(producer, "a", "persisted");
	expect_back();
}

Test(altered, a_right_that_a_new_connection_misses_is_named_until_it_is_granted)
{
	take_away("INSERT", "dead_letters");
	database_terminate_backends(db);
	expect_away("GRANT INSERT ON public.dead_letters TO");
	send_event("a");
	give("INSERT", "dead_letters");
	ack_expect(producer, "a", "persisted");
	expect_back();
}

Test(altered, a_right_that_comes_and_goes_is_named_once_a_minute)
{
	static const char *const ids[] = {"a", "b", "c"};

	for (int i = 0; i < 3; i++) {
		take_away("INSERT", "dead_letters");
		database_terminate_backends(db);
		expect_away("GRANT INSERT ON public.dead_letters TO");
		send_event(ids[i]);
		give("INSERT", "dead_letters");
		ack_expect(producer, ids[i], "persisted");
	}
	cr_assert_eq(warnings("GRANT INSERT ON public.dead_letters TO"), 1);
}

/* --- another collation --- */

/* The unique key refuses the second event, but it is not a copy of the first. */
Test(altered_plain, an_event_that_a_collation_takes_for_another_is_no_duplicate)
{
	send_event("a");
	ack_expect(producer, "a", "persisted");
	database_exec(db, "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
			  "ALTER TABLE events ALTER COLUMN event_id TYPE varchar COLLATE nocase");
	send_event("A");
	ack_expect_rejected(producer, "A", "suppressed");
	send_event("a");
	ack_expect(producer, "a", "duplicate");
}
