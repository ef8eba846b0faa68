/* Events that are too old by their own time become one dead letter for the fleet, without a row or a claim. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 15000

static void set_up(void)
{
	bench_serve((struct listener_options){0}, "--time-pointer /at --max-age 30d");
}

static void set_up_unguarded(void)
{
	bench_serve((struct listener_options){0}, "--time-pointer /at");
}

/* Returns the time this many days ago as RFC 3339. */
static const char *days_ago(int days)
{
	static char text[40];
	time_t then = time(NULL) - days * 86400L;
	struct tm tm;

	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&then, &tm));
	return text;
}

Test(max_age, stale_event_is_a_dead_letter_and_leaves_no_row_and_no_claim, .init = set_up, .fini = bench_close)
{
	peer_sendf(producer, "{\"event_id\":\"old\",\"at\":\"%s\"}", days_ago(31));
	ack_expect_rejected(producer, "old", "stale: /at is more than 30d ago");
	peer_sendf(producer, "{\"event_id\":\"young\",\"at\":\"%s\"}", days_ago(29));
	ack_expect(producer, "young", "persisted");
	cr_assert_eq(bench_rows(), 1);
	cr_assert_eq(bench_count("dead_letters WHERE event_id = 'old' AND reason LIKE 'stale:%%'"), 1);
	cr_assert(!claims_has(redisd_shared(), "old"));
	await(claims_begins(redisd_shared(), "young", "done@"), SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_stale_total"), 1);
}

Test(max_age, event_without_a_time_that_can_be_read_is_a_dead_letter, .init = set_up, .fini = bench_close)
{
	peer_send_text(producer, "{\"event_id\":\"a\"}");
	ack_expect_rejected(producer, "a", "no time: /at is missing");
	peer_send_text(producer, "{\"event_id\":\"b\",\"at\":{}}");
	ack_expect_rejected(producer, "b", "no time: /at is missing or not a string or number");
	peer_send_text(producer, "{\"event_id\":\"c\",\"at\":\"yesterday\"}");
	ack_expect_rejected(producer, "c", "no time: /at is not an RFC 3339 time");
	peer_sendf(producer, "{\"event_id\":\"d\",\"at\":\"%s\"}", days_ago(-2));
	ack_expect_rejected(producer, "d", "no time: /at is more than 1h ahead of the clock");
	cr_assert_eq(bench_rows(), 0);
	cr_assert_eq(bench_count("dead_letters WHERE reason LIKE 'no time:%%'"), 4);
}

Test(max_age, without_it_nobody_looks_at_the_time, .init = set_up_unguarded, .fini = bench_close)
{
	peer_send_text(producer, "{\"event_id\":\"a\",\"at\":\"1970-01-01T00:00:00Z\"}");
	ack_expect(producer, "a", "persisted");
	peer_send_text(producer, "{\"event_id\":\"b\",\"at\":[1],\"at\":2}");
	ack_expect(producer, "b", "persisted");
	cr_assert_eq(bench_count("events WHERE event_time IS NULL AND event_id = 'b'"), 1);
}

Test(max_age, a_stale_event_is_one_dead_letter_for_the_whole_fleet)
{
	struct fleet fleet;

	db = database_new();
	fleet_start(&fleet, 3, db, NULL, "--time-pointer /at --max-age 30d");
	feed_sendf(fleet.feed, "{\"event_id\":\"old\",\"at\":\"%s\"}", days_ago(31));
	await(fleet_metric(&fleet, "wsonce_dead_lettered_total") == 3, SETTLED_MS);
	cr_assert_eq(bench_count("dead_letters"), 1);
	cr_assert_eq(database_long(db, "SELECT seen FROM dead_letters"), 3);
	cr_assert_eq(bench_rows(), 0);
}

/* Its row may be committed at any time, and a dead letter must not stand beside it. */
Test(max_age, an_event_whose_row_another_transaction_holds_is_not_too_old, .fini = bench_close)
{
	time_t soon = time(NULL) + 3;
	double put_off;

	bench_serve((struct listener_options){0}, "--time-pointer /at --time-unit s --max-age 1s");
	struct database *holder = database_open(database_conninfo(db));
	database_exec(holder, "BEGIN; INSERT INTO events (event_id, event_type, payload) VALUES ('held', '', '0')");
	peer_sendf(producer, "{\"event_id\":\"held\",\"at\":%ld}", (long)soon);
	await(time(NULL) > soon + 2, SETTLED_MS);
	put_off = bench_metric("wsonce_rows_put_off_total");
	await(bench_metric("wsonce_rows_put_off_total") > put_off, SETTLED_MS);
	database_exec(holder, "COMMIT");
	database_free(holder);
	ack_expect(producer, "held", "duplicate");
	cr_assert_eq(bench_count("dead_letters"), 0);
}

/* A producer's event waits in memory, and a feed's is read from the disk by the next process. */
Test(max_age, what_is_too_old_when_postgres_is_back_is_a_dead_letter, .timeout = 120)
{
	struct fleet fleet = {0};
	struct postgres *postgres = postgres_new();
	time_t soon;

	db = postgres_database(postgres);
	fleet_start(&fleet, 1, db, &(struct listener_options){.spool = suite_path("spool")},
		    "--time-pointer /at --time-unit s --max-age 1s");
	listener = fleet.listeners[0];
	producer = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
	postgres_stop(postgres);
	soon = time(NULL) + 2;
	peer_sendf(producer, "{\"event_id\":\"old\",\"at\":%ld}", (long)soon);
	peer_sendf(producer, "{\"event_id\":\"young\",\"at\":%ld}", (long)soon + 1800);
	await(bench_metric("wsonce_in_flight") == 2, SETTLED_MS);
	await(time(NULL) > soon + 1, SETTLED_MS);
	postgres_start(postgres);
	ack_expect_rejected(producer, "old", "stale: /at is more than 1s ago");
	ack_expect(producer, "young", "persisted");
	await(claims_begins(redisd_shared(), "old", "dead@"), SETTLED_MS);
	cr_assert_eq(bench_metric("wsonce_stale_total"), 1);

	postgres_stop(postgres);
	soon = time(NULL) + 2;
	feed_sendf(fleet.feed, "{\"event_id\":\"written\",\"at\":%ld}", (long)soon);
	await(bench_metric("wsonce_spooled_total") == 1, SETTLED_MS);
	listener_kill(listener);
	await(time(NULL) > soon + 1, SETTLED_MS);
	postgres_start(postgres);
	fleet_launch_one(&fleet, 0);
	fleet_wait_ready(&fleet);
	listener = fleet.listeners[0];
	await(bench_count("dead_letters WHERE event_id = 'written' AND reason LIKE 'stale:%%'") == 1, SETTLED_MS);
	cr_assert_eq(bench_rows(), 1);
	await(bench_metric("wsonce_spool_events") == 0, SETTLED_MS);
	fleet_end(&fleet);
	listener = NULL;
}
