/* A listener that waits has one backend in Postgres and leaves no settings behind. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000

static void set_up(void)
{
	bench_serve((struct listener_options){.redis = "none"}, "--postgres-timeout 1");
}

static void tear_down(void)
{
	peer_free(producer);
}

TestSuite(backends, .init = set_up, .fini = tear_down, .timeout = 120);

static void send_event(void)
{
	cr_assert(peer_send_text(producer, "{\"event_id\":\"a\",\"event_type\":\"t\",\"payload\":{}}"));
}

static void must_be_acked(const char *status)
{
	char *ack = peer_recv(producer, WAIT_MS);

	cr_assert(ack && strstr(ack, status), "no \"%s\": %s", status, ack);
}

static long backends(void)
{
	return bench_count("pg_stat_activity WHERE datname = current_database() AND "
			   "pid <> pg_backend_pid() AND backend_type = 'client backend'");
}

/* The lock is another transaction's uncommitted row of the same id. */
Test(backends, a_lock_that_is_held_for_long_is_waited_for_on_one_connection)
{
	struct database *other = database_open(database_conninfo(db));

	database_exec(other, "BEGIN; INSERT INTO events (event_id, event_type, payload) VALUES ('a', 't', '{}')");
	send_event();
	await(listener_metric(listener, "wsonce_store_retries_total") +
			      listener_metric(listener, "wsonce_rows_put_off_total") >=
		      3,
	      WAIT_MS, "no statement is cancelled and sent again");
	cr_assert_eq(listener_metric(listener, "wsonce_postgres_connects_total"), 1, "it hangs up");
	cr_assert_eq(backends(), 2);
	database_exec(other, "ROLLBACK");
	must_be_acked("\"persisted\"");
}

/* The trigger ignores the server's own timeout, so the listener has to cancel. */
Test(backends, a_statement_that_nobody_waits_for_is_cancelled)
{
	database_exec(db, "CREATE FUNCTION cling() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
			  "PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60); RETURN NEW; "
			  "END $$; CREATE TRIGGER cling BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION cling()");
	send_event();
	await(listener_metric(listener, "wsonce_postgres_connects_total") >= 3, WAIT_MS);
	cr_assert(listener_has_logged(listener, "no answer within the postgres timeout"));
	cr_assert_leq(backends(), 2, "%ld backends", backends());
	database_exec(db, "DROP TRIGGER cling ON events");
	must_be_acked("\"persisted\"");
}
