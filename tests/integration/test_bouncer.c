/* Listeners behind a PgBouncer. In transaction mode, sessions are lent to others between transactions. All events and
 * their effects are stored, by COPY too, and no setting of a listener stays in a session. */
#include "support.h"

#define WAIT_MS 30000

static struct fleet fleet;

static struct database *direct; /* without PgBouncer */
static struct database *pooled;
static struct bouncer *bouncer;

static void start_in_mode(int connections, const char *mode)
{
	bouncer = bouncer_in_mode_new(connections, mode);
	char *conninfo = bouncer_conninfo(bouncer, direct);
	pooled = database_open(conninfo);
}

static void start_bouncer(int connections)
{
	start_in_mode(connections, "transaction");
}

static void set_up(void)
{
	direct = database_new();
}

TestSuite(bouncer, .init = set_up, .timeout = 120);

/* Checks the settings that another client of the pool sees. */
static void expect_no_limits(void)
{
	char *limits = database_text(pooled, "SELECT concat_ws(' ', current_setting('lock_timeout'), "
					     "current_setting('statement_timeout'), "
					     "current_setting('client_connection_check_interval', true))");

	cr_assert_str_eq(limits, "0 0 0");
}

static void run_fleet(const char *redis)
{
	start_bouncer(1);
	fleet_start(&fleet, 2, pooled, &(struct listener_options){.redis = redis}, "");
	for (int i = 0; i < 10; i++) {
		fleet_send(&fleet, 300);
		expect_no_limits();
	}
	fleet_must_be_whole(&fleet, WAIT_MS);
	if (!redis)
		cr_assert_gt(fleet_metric(&fleet, "wsonce_copy_statements_total"), 0);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_postgres_connects_total"), 2, "there was trouble");
	expect_no_limits();
	fleet_end(&fleet);
}

Test(bouncer, two_listeners_share_one_server_connection_and_leave_no_limits)
{
	run_fleet(NULL);
}

/* Without claims, most rows already exist. */
Test(bouncer, two_listeners_without_claims_store_each_event_once)
{
	run_fleet("none");
}

Test(bouncer, statements_whose_server_connection_is_cut_are_sent_again)
{
	start_bouncer(2);
	fleet_start(&fleet, 2, pooled, NULL, "");
	for (int i = 0; i < 10; i++) {
		fleet_send(&fleet, 200);
		database_terminate_backends(direct);
	}
	await(fleet_rows(&(struct fleet){.rows = direct}) == fleet.sent, WAIT_MS);
	fleet.rows = direct; /* the test's own connection may have been cut */
	fleet_must_be_whole(&fleet, WAIT_MS);
}

Test(bouncer, a_held_id_stops_nobody_and_leaves_no_backend)
{
	struct database *holder = database_open(database_conninfo(direct));

	start_bouncer(2);
	struct listener *l =
		listener_start(&(struct listener_options){.database = pooled, .redis = "none"}, "--postgres-timeout 1");
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	database_exec(holder, "BEGIN; INSERT INTO events (event_id, event_type, payload) VALUES ('held', '', '0')");
	peer_send_text(p, "{\"event_id\":\"held\"}");
	await(listener_metric(l, "wsonce_rows_put_off_total") >= 3, WAIT_MS);
	peer_send_text(p, "{\"event_id\":\"other\"}");
	ack_expect(p, "other", "persisted");
	cr_assert_leq(database_long(direct,
				    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
				    "application_name = 'wsonce'"),
		      2);
	expect_no_limits();
	database_exec(holder, "ROLLBACK");
	ack_expect(p, "held", "persisted");
}

/* --- effects --- */

static void make_handler(void)
{
	database_exec(direct, "CREATE TABLE effects (event_id text); "
			      "CREATE FUNCTION handle(event_id text, event_type text, payload jsonb) RETURNS void "
			      "LANGUAGE plpgsql AS $f$ BEGIN PERFORM set_config('search_path', 'nowhere', false); "
			      "INSERT INTO public.effects VALUES ($1); END $f$");
}

/* The outbox is relayed by a connection of its own. */
static void expect_effects(const char *mode, int connections)
{
	struct receiver *receiver = receiver_start(NULL);
	char *secret = suite_file("secret", RECEIVER_SECRET);
	char *settings = suite_text("{\"webhooks\": [{\"name\": \"shop\", \"url\": \"http://127.0.0.1:%d/ok\", "
				    "\"secret-file\": \"%s\"}]}",
				    receiver_port(receiver), secret);
	char *path = suite_file("webhooks.json", settings);
	char *flags = suite_text("--handler public.handle --consumer books --config %s", path);

	make_handler();
	start_in_mode(connections, mode);
	fleet_start(&fleet, 2, pooled, NULL, flags);
	fleet_send(&fleet, 1000);
	fleet_must_be_whole(&fleet, WAIT_MS);
	cr_assert_eq(database_long(direct, "SELECT count(*) FROM effects"), 1000);
	cr_assert_eq(database_long(direct, "SELECT count(DISTINCT event_id) FROM effects"), 1000);
	cr_assert_eq(database_long(direct, "SELECT count(*) FROM processed_events WHERE consumer = 'books'"), 1000);
	await(database_long(direct, "SELECT count(*) FROM outbox WHERE state = 'delivered'") == 1000, WAIT_MS);
	cr_assert_eq(receiver_effects(receiver, "/ok"), 1000);
	char *places = database_text(pooled, "SHOW search_path");
	cr_assert_str_eq(places, "\"$user\", public", "it stays in the session");
	fleet_end(&fleet);
}

Test(bouncer, effects_are_whole_in_transaction_mode)
{
	expect_effects("transaction", 2);
}

/* Each connection keeps a server connection: two of each listener, and one of the test. */
Test(bouncer, effects_are_whole_in_session_mode)
{
	expect_effects("session", 6);
}

Test(bouncer, session_mode_stores_each_event_once)
{
	start_in_mode(6, "session");
	fleet_start(&fleet, 3, pooled, NULL, "");
	fleet_send(&fleet, 3000);
	fleet_must_be_whole(&fleet, WAIT_MS);
	fleet_end(&fleet);
}

/* Statement mode cannot create tables, which takes a transaction, but can do everything else. */
Test(bouncer, statement_mode_is_said_where_tables_are_to_be_made_and_stores_else)
{
	struct listener_options options = {.redis = "none", .without_waiting = true};

	start_in_mode(2, "statement");
	database_exec(direct, "DROP TABLE IF EXISTS wsonce_schema, events, processed_events CASCADE");
	options.database = pooled;
	struct listener *l = listener_start(&options, NULL);
	await(listener_has_logged(l, "transaction blocks not allowed in statement pooling mode"), WAIT_MS, "%s",
	      process_last_words(listener_process(l)));
	cr_assert_eq(listener_status(l, "/readyz"), 503);
	listener_free(l);
	run_expect(direct, 0, NULL, "migrate");
	fleet_start(&fleet, 2, pooled, NULL, "");
	fleet_send(&fleet, 1000);
	fleet_must_be_whole(&fleet, WAIT_MS);
	fleet_end(&fleet);
}

/* A cursor stays in its session. In transaction mode, an export that finds one of another export must not read it. */
Test(bouncer, an_export_does_not_meet_the_cursor_of_another_one)
{
	start_bouncer(1);
	run_expect(pooled, 0, NULL, "migrate");
	database_exec(direct, "INSERT INTO events (event_id, event_type, payload) VALUES ('a', '', '0')");
	run_expect(pooled, 0, "\"event_id\":\"a\"", "export --live");
	run_expect(pooled, 0, "\"event_id\":\"a\"", "export --live");
}
