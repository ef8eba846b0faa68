/* Listeners behind a PgBouncer in transaction mode, whose sessions belong to others between two transactions: all is
 * stored, by COPY too, and nothing of a listener stays in a session. */
#include "support.h"

#define WAIT_MS 30000

static struct fleet fleet;

static struct database *direct; /* without PgBouncer */
static struct database *pooled;
static struct bouncer *bouncer;

static void start_bouncer(int connections)
{
	char *conninfo;

	bouncer = bouncer_new(connections);
	conninfo = bouncer_conninfo(bouncer, direct);
	pooled = database_open(conninfo);
}

static void set_up(void)
{
	direct = database_new();
}

TestSuite(bouncer, .init = set_up, .timeout = 120);

/* What another client of the pool finds. */
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
	cr_assert_gt(fleet_metric(&fleet, "wsonce_copy_statements_total"), 0);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_postgres_connects_total"), 2, "there was trouble");
	expect_no_limits();
	fleet_end(&fleet);
}

Test(bouncer, two_listeners_share_one_server_connection_and_leave_no_limits)
{
	run_fleet(NULL);
}

/* Without claims most of the rows are there already. */
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
	cr_assert(wait_until(fleet_rows(&(struct fleet){.rows = direct}) == fleet.sent, WAIT_MS));
	fleet.rows = direct; /* the test's own connection may have been cut */
	fleet_must_be_whole(&fleet, WAIT_MS);
}

Test(bouncer, a_held_id_stops_nobody_and_leaves_no_backend)
{
	struct database *holder = database_open(database_conninfo(direct));
	struct listener *l;
	struct peer *p;

	start_bouncer(2);
	l = listener_start(&(struct listener_options){.database = pooled, .redis = "none"}, "--postgres-timeout 1");
	p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	database_exec(holder, "BEGIN; INSERT INTO events (event_id, event_type, payload) VALUES ('held', '', '0')");
	peer_send_text(p, "{\"event_id\":\"held\"}");
	cr_assert(wait_until(listener_metric(l, "wsonce_rows_put_off_total") >= 3, WAIT_MS));
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
