/* Postgres fails while three listeners work: no event is lost or doubled, nothing is acked before its commit, memory is
 * bounded, and all works normally afterwards. */
#include "support.h"

#define WHOLE_MS 30000
#define MIB      (1024 * 1024)

static struct fleet fleet;

static struct bench {
	struct fleet fleet;
	struct postgres *postgres;
	struct database *rows;
} bench;

static void start_some(int listeners, const char *flags)
{
	bench.postgres = postgres_new();
	bench.rows = postgres_database(bench.postgres);
	fleet_start(&bench.fleet, listeners, bench.rows, NULL, flags);
}

static void start(const char *flags)
{
	start_some(3, flags);
}

/* Expects everything to be stored once, no claim to be left, and new events to be claimed, stored and marked. */
static void must_work_again(void)
{
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	await(claims_open(redisd_shared()) == 0, WHOLE_MS, "claims without work are left");
	fleet_must_claim(&bench.fleet, redisd_shared(), WHOLE_MS);
	/* A row whose commit nobody saw counts as a duplicate. */
	cr_assert(fleet_metric(&bench.fleet, "wsonce_persisted_total") <= bench.fleet.sent,
		  "%.0f counted as stored of %ld", fleet_metric(&bench.fleet, "wsonce_persisted_total"),
		  (long)bench.fleet.sent);
}

/* --- two connections of a listener --- */

#define STORING "application_name = 'listener-0' and datname = current_database()"

/* Sends one listener so much that it opens its second connection. */
static void open_two(void)
{
	fleet_send(&bench.fleet, 3000);
	await(database_long(bench.rows, "select count(*) from pg_stat_activity where " STORING) == 2, WHOLE_MS,
	      "the listener opened no second connection");
}

static void start_two(void)
{
	start_some(1, "--batch-max 5");
	open_two();
}

Test(postgres_faults, during_an_upgrade_the_second_connection_is_used)
{
	start_some(1, "--batch-max 5");
	database_exec(bench.rows, "insert into wsonce_schema (version) values (1000)");
	open_two();
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	cr_assert(listener_has_logged(bench.fleet.listeners[0], "the schema is newer than this program"));
	cr_assert_not(listener_has_logged(bench.fleet.listeners[0], "cannot use a second connection"));
}

Test(postgres_faults, two_connections_of_a_listener_ended_again_and_again_do_no_harm, .timeout = 120)
{
	start_two();
	for (int i = 0; i < 12; i++) {
		fleet_send(&bench.fleet, 500);
		await(postgres_terminate_backends(bench.postgres) > 0, WHOLE_MS);
		fleet_wait_rows(&bench.fleet, bench.fleet.sent - 400, WHOLE_MS);
	}
	must_work_again();
}

Test(postgres_faults, a_second_connection_that_is_lost_for_good_is_not_waited_for, .timeout = 120)
{
	start_two();
	database_exec(bench.rows, "alter role current_user nologin");
	database_slow_down(bench.rows, 5); /* so that a batch is in progress */
	fleet_send(&bench.fleet, 500);
	fleet_wait_rows(&bench.fleet, bench.fleet.sent - 400, WHOLE_MS);
	cr_assert_eq(database_long(bench.rows,
				   "select count(pg_terminate_backend(pid)) from (select pid from "
				   "pg_stat_activity where " STORING " order by backend_start desc limit 1) as b"),
		     1);
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	cr_assert_eq(database_long(bench.rows, "select count(*) from pg_stat_activity where " STORING), 1);
	database_exec(bench.rows, "alter role current_user login");
	must_work_again();
}

/* --- frozen --- */

Test(postgres_faults, a_pause_of_postgres_does_no_harm, .timeout = 120)
{
	start("--claim-ttl 3 --postgres-timeout 600"); /* a listener that gives up releases its claims */
	fleet_send(&bench.fleet, 1000);
	fleet_wait_rows(&bench.fleet, bench.fleet.sent - 900, WHOLE_MS);
	postgres_pause(bench.postgres);
	fleet_send(&bench.fleet, 1000);
	double renewed = fleet_metric(&bench.fleet, "wsonce_claims_renewed_total");
	await(claims_open(redisd_shared()) >= 1000, WHOLE_MS);
	/* Only the claims of batches in progress, because a stalled listener releases the others. */
	await(fleet_metric(&bench.fleet, "wsonce_claims_renewed_total") >= renewed + 20, WHOLE_MS);
	cr_assert_eq(fleet_metric(&bench.fleet, "wsonce_claims_expired_total"), 0, "claims were lost meanwhile");
	postgres_resume(bench.postgres);
	must_work_again();
}

static void expect_no_ack(struct peer *p)
{
	char *ack = peer_recv(p, 200);

	cr_assert_null(ack, "acked while Postgres stands still: %s", ack);
}

static bool next_ack_says(struct peer *p, const char *status)
{
	char *ack = peer_recv(p, 20000);
	return ack && strstr(ack, status);
}

/* ---- memory is full meanwhile ---- */

/* Sends events until the listener stops reading. Returns the number that it read or the kernel holds. */
static int send_until_stopped(struct peer *p)
{
	int n = 0;

	peer_set_deadline(p, 500);
	while (peer_sendf(p, "{\"event_id\":\"filler-%d\",\"payload\":\"%0900d\"}", n, n))
		n++;
	return n + 1; /* the last one is kept, and goes out with the next flush */
}

static int count_acks(struct peer *p, int wanted)
{
	char *text;
	int n = 0;

	peer_set_deadline(p, 10);
	while (n < wanted && (peer_flush(p), text = peer_recv(p, 5000))) {
		cr_assert(strstr(text, "\"persisted\""), "%s", text);
		n++;
	}
	return n;
}

/* Its pongs are queued behind events that are not read. */
Test(postgres_faults, who_is_not_read_from_while_memory_is_full_stays_connected, .timeout = 120)
{
	start("--max-inflight-bytes 256KiB --ping-interval 1");
	struct listener *listener = bench.fleet.listeners[0];
	struct peer *busy = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
	postgres_pause(bench.postgres);
	int sent = send_until_stopped(busy);
	await(listener_metric(listener, "wsonce_ingest_paused") == 1, WHOLE_MS);
	wait_pause_ms(5000);
	cr_assert_eq(listener_metric(listener, "wsonce_source_disconnects_total"), 0);
	postgres_resume(bench.postgres);
	cr_assert_eq(count_acks(busy, sent), sent, "not all of %d events were acked", sent);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_connections"), 1);
}

/* A quiet connection is stopped only when it sends something, before its event is read. */
Test(postgres_faults, a_quiet_producer_that_speaks_while_memory_is_full_waits_its_turn, .timeout = 120)
{
	start("--max-inflight-bytes 256KiB --batch-max 10");
	struct listener *listener = bench.fleet.listeners[0];
	struct peer *quiet = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
	struct peer *busy = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
	peer_send_text(quiet, "{\"event_id\":\"once\",\"payload\":{}}");
	cr_assert(next_ack_says(quiet, "\"persisted\""));
	for (int n = 0;
	     listener_metric(listener, "wsonce_ingest_pauses_total") < 12;) { /* it was quiet during many stops */
		for (int i = 0; i < 2000; i++)
			peer_sendf(busy, "{\"event_id\":\"busy-%d\",\"payload\":{}}", n++);
		cr_assert_eq(count_acks(busy, 2000), 2000);
	}
	postgres_pause(bench.postgres);
	int sent = send_until_stopped(busy);
	await(listener_metric(listener, "wsonce_ingest_paused") == 1, WHOLE_MS);
	double received = listener_metric(listener, "wsonce_received_total");
	peer_send_text(quiet, "{\"event_id\":\"quiet\",\"payload\":{}}");
	wait_pause_ms(500);
	cr_assert_eq(listener_metric(listener, "wsonce_received_total"), received, "it was read");
	postgres_resume(bench.postgres);
	cr_assert(next_ack_says(quiet, "\"persisted\""));
	cr_assert_eq(count_acks(busy, sent), sent, "not all of %d events were acked", sent);
}

/* Which one is open: on a busy machine Redis may answer too late, and then the unique key decides. */
static void one_must_be_persisted(const char *a, const char *b)
{
	cr_assert(a && b);
	cr_assert_eq(!!strstr(a, "\"persisted\"") + !!strstr(b, "\"persisted\""), 1, "%s, %s", a, b);
	cr_assert_eq(!!strstr(a, "\"duplicate\"") + !!strstr(b, "\"duplicate\""), 1, "%s, %s", a, b);
}

Test(postgres_faults, acks_wait_for_a_postgres_that_stands_still, .timeout = 120)
{
	start("");
	struct peer *first = peer_open_events(listener_ingest_port(bench.fleet.listeners[0]), "wsonce.ack.v1");
	struct peer *second = peer_open_events(listener_ingest_port(bench.fleet.listeners[1]), "wsonce.ack.v1");
	postgres_pause(bench.postgres);
	peer_send_text(first, "{\"event_id\":\"id\",\"payload\":{}}");
	await(claims_has(redisd_shared(), "id"), WHOLE_MS);
	peer_send_text(second, "{\"event_id\":\"id\",\"payload\":{}}");
	await(listener_metric(bench.fleet.listeners[1], "wsonce_in_flight") == 1, WHOLE_MS);
	expect_no_ack(first);
	expect_no_ack(second);
	postgres_resume(bench.postgres);
	one_must_be_persisted(peer_recv(first, 20000), peer_recv(second, 20000));
}

/* Rows from other backends wait for the test's lock. */
static struct database *hold_up_all_but(struct database *rows, pid_t backend)
{
	struct database *lock = database_open(database_conninfo(rows));

	database_exec(lock, "begin");
	database_exec(lock, "select pg_advisory_xact_lock(1)");
	database_exec(rows,
		      "create function hold_up() returns trigger language plpgsql as $$ begin "
		      "if pg_backend_pid() <> %d then perform pg_advisory_xact_lock_shared(1); end if; "
		      "return new; end $$",
		      (int)backend);
	database_exec(rows, "create trigger hold_up before insert on events for each row execute function hold_up()");
	return lock;
}

/* Starts a listener with these flags, freezes its backend, and sends it this event, which waits for the lock that is
 * returned on every other backend. */
static struct database *send_to_frozen(const char *flags, const char *at, struct peer **producer, pid_t *backend)
{
	fleet_start(&fleet, 1, NULL, NULL, suite_text("--postgres-timeout 1 %s", flags));
	struct peer *p = peer_open_events(listener_ingest_port(fleet.listeners[0]), "wsonce.ack.v1");
	peer_sendf(p, "{\"event_id\":\"before\",\"at\":%s}", at); /* and the first check-in is stored */
	cr_assert(next_ack_says(p, "\"persisted\""));
	*backend =
		(pid_t)database_long(fleet.rows, "select pid from pg_stat_activity where datname = current_database() "
						 "and backend_type = 'client backend' and pid <> pg_backend_pid()");
	struct database *lock = hold_up_all_but(fleet.rows, *backend);
	kill(*backend, SIGSTOP);
	peer_sendf(p, "{\"event_id\":\"id\",\"at\":%s}", at);
	await(listener_metric(fleet.listeners[0], "wsonce_postgres_connects_total") >= 2, WHOLE_MS);
	*producer = p;
	return lock;
}

/* The listener gives up on a statement while its backend is frozen. The backend then commits unseen, and the statement,
 * sent again on a new connection, finds the row. */
Test(postgres_faults, a_row_whose_commit_nobody_saw_is_there_once, .timeout = 120)
{
	struct peer *p;
	pid_t backend;
	struct database *lock = send_to_frozen("", "0", &p, &backend);

	kill(backend, SIGCONT);
	fleet_wait_rows(&fleet, 2, WHOLE_MS);
	fleet_unlock(lock);
	cr_assert(next_ack_says(p, "\"duplicate\""));
	cr_assert_eq(fleet_rows(&fleet), 2);
}

Test(postgres_faults, what_a_lost_statement_may_still_store_is_never_too_old, .timeout = 120)
{
	struct peer *p;
	pid_t backend;
	time_t soon = time(NULL) + 10;
	struct database *lock = send_to_frozen("--time-pointer /at --time-unit s --max-age 1s",
					       suite_text("%ld", (long)soon), &p, &backend);
	double put_off;

	await(time(NULL) > soon + 2, WHOLE_MS);
	put_off = listener_metric(fleet.listeners[0], "wsonce_rows_put_off_total");
	await(listener_metric(fleet.listeners[0], "wsonce_rows_put_off_total") > put_off + 1, WHOLE_MS);
	kill(backend, SIGCONT);
	fleet_wait_rows(&fleet, 2, WHOLE_MS);
	fleet_unlock(lock);
	cr_assert(next_ack_says(p, "\"duplicate\""));
	cr_assert_eq(database_long(fleet.rows, "select count(*) from dead_letters"), 0);
}

/* --- down at start, read only --- */

Test(postgres_faults, listeners_wait_for_a_postgres_that_starts_later, .timeout = 120)
{
	bench = (struct bench){.postgres = postgres_new()};

	bench.rows = postgres_database(bench.postgres);
	postgres_stop(bench.postgres);
	fleet_launch(&bench.fleet, 3, bench.rows, NULL, "");
	cr_assert(feed_wait_clients(bench.fleet.feed, 3, WHOLE_MS), "no listening without Postgres");
	cr_assert_eq(listener_status(bench.fleet.listeners[0], "/readyz"), 503);
	fleet_send(&bench.fleet, 1000);
	await(fleet_metric(&bench.fleet, "wsonce_in_flight") == 3000, WHOLE_MS);
	postgres_start(bench.postgres);
	fleet_wait_ready(&bench.fleet);
	must_work_again();
}

/* A listener that has events does not exit because of another program's tables or a missing handler. */
Test(postgres_faults, a_listener_that_has_events_waits_until_its_database_is_mended, .timeout = 120)
{
	struct postgres *pg = postgres_new();
	struct database *rows = postgres_database(pg);

	database_exec(rows, "create table events (number int)");
	postgres_stop(pg);
	struct listener *l = listener_start(&(struct listener_options){.database = rows, .without_waiting = true},
					    "--handler public.handle");
	await(listener_status(l, "/readyz") == 503, WHOLE_MS);
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");
	cr_assert(peer_sendf(p, "{\"event_id\":\"a\"}"));
	await(listener_metric(l, "wsonce_received_total") == 1, WHOLE_MS);
	postgres_start(pg);
	await(listener_has_logged(l, "belongs to another program"), WHOLE_MS);
	database_exec(rows, "drop table events");
	await(listener_has_logged(l, "there is no such function"), WHOLE_MS);
	database_exec(rows, "create function public.handle(text, text, jsonb) returns void language sql as ''");
	ack_expect(p, "a", "persisted");
	cr_assert_eq(listener_stop(l), 0);
}

/* --- the memory limit --- */

/* Sends another MiB. Returns true if the listener has stopped reading and the kernel's buffers are full. */
static bool is_pushed_back(struct fleet *f)
{
	fleet_send(f, MIB / (f->payload + 100) + 1);
	return listener_metric(f->listeners[0], "wsonce_paused") == 1 && !feed_flush(f->feed, 100);
}

/* The fleet's only listener fills its memory behind a locked table, stops reading, and reads the rest when the lock is
 * released. */
static void fill_and_empty(struct fleet *f, long *rss_kb)
{
	struct database *lock = fleet_lock(f->rows);

	await(is_pushed_back(f), WHOLE_MS, "the feed is not pushed back");
	long kb = process_rss_kb(listener_process(f->listeners[0]));
	*rss_kb = kb > *rss_kb ? kb : *rss_kb;
	fleet_unlock(lock);
	fleet_wait_rows(f, f->sent, WHOLE_MS);
	await(listener_metric(f->listeners[0], "wsonce_paused") == 0, WHOLE_MS, "reading does not go on");
}

static void stop_and_go(int payload, const char *redis)
{
	struct database *rows = database_new();
	long rss_kb = 0;

	setenv("ASAN_OPTIONS", "quarantine_size_mb=1", 1);
	fleet_start(&fleet, 1, rows, &(struct listener_options){.redis = redis}, "--max-inflight-bytes 2MiB");
	long idle_kb = process_rss_kb(listener_process(fleet.listeners[0]));
	fleet.payload = payload;
	for (int i = 0; i < 3; i++)
		fill_and_empty(&fleet, &rss_kb);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_geq(listener_metric(fleet.listeners[0], "wsonce_pauses_total"), 3);
	cr_assert_lt(rss_kb, idle_kb + PROCESS_MEMORY_FACTOR * 20 * 1024, "%ld KiB resident, %ld when idle", rss_kb,
		     idle_kb);
}

/* A listener that does not read does not see pongs, either. If it closed the connection, unsent events would be lost,
 * because no listener is reading now. */
Test(postgres_faults, a_feed_that_is_not_read_from_is_not_taken_for_dead, .timeout = 120)
{
	struct redisd *redis = redisd_new(); /* its own server, because it gets 100,000 marks */

	fleet_start(&fleet, 1, NULL, &(struct listener_options){.redis = redisd_url(redis)},
		    "--max-inflight-bytes 2MiB --ping-interval 1 --idle-timeout 2");
	struct database *lock = fleet_lock(fleet.rows);
	await(is_pushed_back(&fleet), WHOLE_MS, "the feed is not pushed back");
	cr_assert_not(wait_until(listener_metric(fleet.listeners[0], "wsonce_source_disconnects_total") > 0, 5000),
		      "the feed was hung up on");
	fleet_unlock(lock);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

/* A feed with 20 MB for a listener whose Postgres takes 100 rows in 0.3 s, which then hangs up. */
Test(postgres_faults, a_feed_is_read_while_postgres_is_slow, .timeout = 120)
{
	fleet_start(&fleet, 1, NULL, NULL, "--batch-max 100");
	struct listener *l = fleet.listeners[0];
	fleet.payload = 1000;
	database_exec(fleet.rows,
		      "create function slow() returns trigger language plpgsql as $$ begin "
		      "perform pg_sleep(0.3); return null; end $$; create trigger slow after insert on events "
		      "for each statement execute function slow()");
	fleet_send(&fleet, 20000);
	cr_assert(feed_flush(fleet.feed, WHOLE_MS), "the feed is not read");
	feed_close_all(fleet.feed, 1001);
	await(listener_metric(l, "wsonce_received_total") == fleet.sent, WHOLE_MS, "events are lost");
	cr_assert_lt(fleet_rows(&fleet), fleet.sent / 2);
	cr_assert_eq(listener_metric(l, "wsonce_pauses_total"), 0);
	await(listener_has_logged(l, "the store is slow, events wait"), WHOLE_MS);
	cr_assert_gt(listener_metric(l, "wsonce_postgres_slow_seconds"), 1);
	await(listener_page_has(l, "/readyz", "warning: postgres is slow: "), WHOLE_MS);
	await(strstr(run_on(fleet.rows, "status").output, "listener-0: postgres is slow: "), WHOLE_MS);
	database_exec(fleet.rows, "drop function slow() cascade");
	fleet_must_be_whole(&fleet, WHOLE_MS);
	await(listener_has_logged(l, "the store is fast enough again"), WHOLE_MS);
	cr_assert_eq(listener_metric(l, "wsonce_postgres_slow_seconds"), 0);
}

/* What the feed has sent is only in the socket's buffer. */
Test(postgres_faults, what_a_feed_sent_before_a_cut_is_stored_though_reading_had_stopped, .timeout = 120)
{
	fleet_start(&fleet, 1, NULL, NULL, "--max-inflight-bytes 256KiB");
	struct database *lock = fleet_lock(fleet.rows);
	while (listener_metric(fleet.listeners[0], "wsonce_paused") != 1) {
		fleet_send(&fleet, 20);
		await(listener_metric(fleet.listeners[0], "wsonce_received_total") >= fleet.sent ||
			      listener_metric(fleet.listeners[0], "wsonce_paused") == 1,
		      WHOLE_MS);
	}
	fleet_send(&fleet, 50);                      /* far less than the socket's buffer takes */
	cr_assert(feed_flush(fleet.feed, WHOLE_MS)); /* into the listener's buffer */
	wait_pause_ms(200);
	cr_assert_leq(listener_metric(fleet.listeners[0], "wsonce_received_total"), fleet.sent - 50, "it was read");
	feed_drop_all(fleet.feed);
	fleet_unlock(lock);
	await(feed_connections(fleet.feed) == 2, WHOLE_MS);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

Test(postgres_faults, small_messages_stop_and_go_at_the_memory_limit, .timeout = 120)
{
	struct redisd *redis = redisd_new(); /* as above */

	stop_and_go(0, redisd_url(redis));
}

Test(postgres_faults, large_messages_stop_and_go_at_the_memory_limit, .timeout = 120)
{
	stop_and_go(100000, NULL);
}

Test(postgres_faults, messages_near_the_whole_budget_pass_one_by_one, .timeout = 120)
{
	stop_and_go(900000, "none");
}
