/* Claims as seen from outside: one row however many send, own keys only, leases renewed, claims given
 * back after a failure and won again, and acks that are true. */
#include "support.h"

#define ACK_MS 15000
#define ACKS   "wsonce.ack.v1"

#define SLOW_ROW_MS 7500 /* well over a TTL of three seconds */

/* What most tests begin with: a database, the shared Redis, and listeners. */
static struct bench {
	struct database *rows;
	struct redisd *redis;
	struct listener *listeners[5];
} bench;

static void start(int listeners, const char *flags)
{
	bench = (struct bench){.rows = database_new(), .redis = redisd_shared()};
	for (int i = 0; i < listeners; i++)
		bench.listeners[i] = listener_start(&(struct listener_options){.database = bench.rows}, "%s", flags);
}

static struct peer *producer(struct listener *l)
{
	return peer_open_events(listener_ingest_port(l), ACKS);
}

static void give(struct peer *p, const char *id)
{
	cr_assert(peer_sendf(p, "{\"event_id\":\"%s\",\"event_type\":\"t\",\"payload\":{\"n\":1}}", id));
}

/* The status word of an ack for this id. */
static bool is_ack(const char *ack, const char *id, const char *status)
{
	char *expected = suite_text("{\"event_id\":\"%s\",\"status\":\"%s\"", id, status);
	return ack && strncmp(ack, expected, strlen(expected)) == 0;
}

static void expect_no_ack(struct peer *p)
{
	char *ack = peer_recv(p, 100);

	cr_assert_null(ack, "there is an ack already: %s", ack);
	cr_assert(peer_is_open(p));
}

static long rows_of(struct database *db, const char *id)
{
	return database_long(db, "select count(*) from events where event_id = '%s'", id);
}

static bool holds(struct listener *l, int n)
{
	return listener_metric(l, "wsonce_events{state=\"held\"}") == n;
}

/* Every insert fails, and counts in the sequence tries, which a rollback does not turn back. */
static void make_inserts_fail(struct database *db)
{
	database_exec(db, "create sequence tries");
	database_exec(db, "create function refuse() returns trigger language plpgsql as $$ begin "
			  "perform nextval('tries'); raise exception 'not today'; end $$");
	database_exec(db, "create trigger refuse before insert on events for each row execute function refuse()");
}

static void let_inserts_pass(struct database *db)
{
	database_exec(db, "drop trigger refuse on events");
}

static long tries(struct database *db)
{
	return database_long(db, "select case when is_called then last_value else 0 end from tries");
}

/* --- many at once --- */

static void send_from_all(int listeners, int count)
{
	struct peer **peers = calloc((size_t)count, sizeof(struct peer *));
	int persisted = 0, duplicates = 0;

	process_raise_file_limit();
	for (int i = 0; i < count; i++)
		peers[i] = producer(bench.listeners[i % listeners]);
	for (int i = 0; i < count; i++)
		give(peers[i], "once");
	for (int i = 0; i < count; i++) {
		char *ack = peer_recv(peers[i], ACK_MS);

		persisted += is_ack(ack, "once", "persisted");
		duplicates += is_ack(ack, "once", "duplicate");
	}
	cr_assert_eq(persisted, 1, "%d were told persisted", persisted);
	cr_assert_eq(duplicates, count - 1, "%d of %d were told duplicate", duplicates, count);
	cr_assert_eq(database_long(bench.rows, "select count(*) from events"), 1);
	for (int i = 0; i < count; i++)
		peer_free(peers[i]);
}

Test(claim, a_thousand_connections_to_five_listeners_make_one_row, .timeout = 120)
{
	start(5, "");
	send_from_all(5, 1000);
}

Test(claim, a_late_copy_at_another_listener_is_a_duplicate_without_an_insert, .timeout = 60)
{
	start(2, "--claim-ttl 5 --dedup-window 70");
	struct peer *first = producer(bench.listeners[0]), *second = producer(bench.listeners[1]);
	int64_t sent_ms = wait_now_ms();
	give(first, "id");
	ack_expect(first, "id", "persisted");
	cr_assert(claims_begins(bench.redis, "id", "done@"), "an acked event has no done mark");
	long left_ms = claims_ttl_ms(bench.redis, "id");
	cr_assert(left_ms > 70000 - (wait_now_ms() - sent_ms) - 10 && left_ms <= 70000,
		  "the mark stays for %ld ms, not the dedup window", left_ms);
	give(second, "id");
	ack_expect(second, "id", "duplicate");
	cr_assert_eq(listener_metric(bench.listeners[1], "wsonce_batches_total"), 0, "the mark was not believed");
}

/* --- after a failure --- */

Test(claim, a_failed_insert_gives_the_claim_back_and_a_later_try_stores_it, .timeout = 60)
{
	start(1, "--max-attempts 50");
	make_inserts_fail(bench.rows);
	struct peer *p = producer(bench.listeners[0]);
	give(p, "id");
	await(tries(bench.rows) > 0, 5000, "nobody tried to insert");
	await(!claims_has(bench.redis, "id"), 5000, "the claim is kept although the insert failed");
	await(tries(bench.rows) > 1, 5000, "nobody tried again");
	expect_no_ack(p);
	let_inserts_pass(bench.rows);
	ack_expect(p, "id", "persisted");
	cr_assert_eq(rows_of(bench.rows, "id"), 1);
	cr_assert_eq(database_long(bench.rows, "select count(*) from dead_letters"), 0);
}

/* What one instance cannot store, whatever the reason, another may. */
Test(claim, an_event_that_one_listener_cannot_store_is_stored_by_another, .timeout = 60)
{
	bench = (struct bench){.rows = database_new(), .redis = redisd_shared()};
	const char *env[] = {"PGAPPNAME=unlucky", NULL};
	const char *flags = "--claim-ttl 60 --max-attempts 20";

	bench.listeners[0] =
		listener_start(&(struct listener_options){.database = bench.rows, .env = env}, "%s", flags);
	bench.listeners[1] = listener_start(&(struct listener_options){.database = bench.rows}, "%s", flags);
	database_exec(bench.rows,
		      "create function refuse() returns trigger language plpgsql as $$ begin "
		      "if current_setting('application_name') = 'unlucky' then raise exception 'not you'; end if; "
		      "return new; end $$");
	database_exec(bench.rows,
		      "create trigger refuse before insert on events for each row execute function refuse()");
	struct peer *first = producer(bench.listeners[0]), *second = producer(bench.listeners[1]);
	give(first, "id");
	await(listener_metric(bench.listeners[0], "wsonce_rows_refused_total") > 0, 5000);
	give(second, "id");
	ack_expect(second, "id", "persisted");
	ack_expect(first, "id", "duplicate");
}

/* --- own keys only --- */

/* Watches a claim until it has expired: it must never be changed or extended, and there must be no row. Each look
 * computes the earliest end again, so that the time since the last look does not matter. */
static void watch_claim(const char *id, const char *value)
{
	long last_ms = claims_ttl_ms(bench.redis, id);
	int64_t end_ms = 0;

	for (;;) {
		int64_t asked_ms = wait_now_ms();
		long rows = rows_of(bench.rows, id), left_ms = claims_ttl_ms(bench.redis, id);
		char *now = claims_value(bench.redis, id);

		if (left_ms < 0 || !now || strcmp(now, value) != 0) {
			cr_assert_geq(wait_now_ms(), end_ms - 50, "it ended %ld ms early",
				      (long)(end_ms - wait_now_ms()));
			return;
		}
		cr_assert_leq(left_ms, last_ms, "it was prolonged from %ld ms to %ld ms", last_ms, left_ms);
		cr_assert_eq(rows, 0, "stored although another owner works on it");
		last_ms = left_ms;
		end_ms = asked_ms + left_ms;
		wait_pause_ms(5);
	}
}

Test(claim, a_foreign_claim_is_left_alone_until_it_expires, .timeout = 60)
{
	start(1, "--claim-ttl 10");
	struct peer *p = producer(bench.listeners[0]);
	claims_put(bench.redis, "id", "stranger.0@1", 0);
	give(p, "id");
	await(holds(bench.listeners[0], 1), 5000, "it is not held");
	claims_put(bench.redis, "id", "stranger.0@1", 1500);
	watch_claim("id", "stranger.0@1");
	await(rows_of(bench.rows, "id") == 1, 5000, "not stored after the foreign claim's end");
	ack_expect(p, "id", "persisted");
	cr_assert(claims_begins(bench.redis, "id", "done@"));
	cr_assert_eq(listener_metric(bench.listeners[0], "wsonce_hold_timeouts_total"), 0);
}

Test(claim, a_done_mark_makes_a_duplicate_without_a_row, .timeout = 60)
{
	start(1, "");
	claims_put_mark(bench.redis, bench.rows, "id", "done@", "");
	struct peer *p = producer(bench.listeners[0]);
	give(p, "id");
	ack_expect(p, "id", "duplicate");
	cr_assert_eq(rows_of(bench.rows, "id"), 0);
	cr_assert(claims_begins(bench.redis, "id", "done@9700000000000"));
}

/* Though nothing else wakes the listener. */
Test(claim, a_turn_that_has_come_is_used_at_once, .timeout = 60)
{
	start(1, "--order-pointer /event_type");
	struct peer *p = producer(bench.listeners[0]);
	int64_t began_ms = 0;

	for (int n = 0; n < 200; n++) {
		if (n == 100)
			began_ms = wait_now_ms();
		give(p, suite_text("e-%d", n % 100));
		if (n % 100 == 99)
			for (int i = 0; i < 100; i++)
				ack_expect(p, suite_text("e-%d", i), n < 100 ? "persisted" : "duplicate");
	}
	cr_assert_lt(wait_now_ms() - began_ms, wait_stretch_ms(2000));
}

Test(claim, a_held_event_is_settled_by_the_mark_that_its_owner_leaves, .timeout = 60)
{
	start(1, "");
	claims_put(bench.redis, "committed", "stranger.0@1", 0);
	claims_put(bench.redis, "refused", "stranger.0@1", 0);
	struct peer *p = producer(bench.listeners[0]);
	give(p, "committed");
	give(p, "refused");
	await(holds(bench.listeners[0], 2), 5000);
	claims_put_mark(bench.redis, bench.rows, "committed", "done@", "");
	ack_expect(p, "committed", "duplicate");
	claims_put_mark(bench.redis, bench.rows, "refused", "dead@", "/e684830eb80e2c71"); /* of the message */
	ack_expect(p, "refused", "rejected");
	cr_assert_eq(database_long(bench.rows, "select count(*) from events"), 0);
}

Test(claim, a_claim_lost_and_won_by_another_is_not_renewed_by_the_first_owner, .timeout = 60)
{
	start(1, "--claim-ttl 3");
	struct peer *p = producer(bench.listeners[0]);
	give(p, "before"); /* and the first note is told */
	ack_expect(p, "before", "persisted");
	database_slow_down(bench.rows, SLOW_ROW_MS);
	give(p, "id");
	await(claims_has(bench.redis, "id"), 5000);
	claims_put(bench.redis, "id", "stranger.0@1", 60000);
	/* two renewals found it gone */
	await(listener_metric(bench.listeners[0], "wsonce_claims_expired_total") >= 2, ACK_MS);
	cr_assert(claims_is(bench.redis, "id", "stranger.0@1"), "another's claim was taken away");
	long left_ms = claims_ttl_ms(bench.redis, "id");
	cr_assert(left_ms > 30000 && left_ms <= 60000, "another's lease is now %ld ms", left_ms);
	ack_expect(p, "id", "persisted");
}

/* The owner's insert was refused, and it keeps the claim for the backoff: now somebody else gets it, and the lease of
 * the first is not renewed. */
static void overwrite_while_backing_off(struct peer *p, const char *id, const char *value)
{
	make_inserts_fail(bench.rows);
	give(p, id);
	await(listener_metric(bench.listeners[0], "wsonce_events{state=\"backing_off\"}") == 1, 5000);
	claims_put(bench.redis, id, value, 60000);
	await(listener_metric(bench.listeners[0], "wsonce_events{state=\"backing_off\"}") == 0, 5000);
}

Test(claim, a_claim_lost_and_won_by_another_is_not_deleted_by_the_first_owner, .timeout = 60)
{
	start(1, "--max-attempts 50");
	struct peer *p = producer(bench.listeners[0]);
	overwrite_while_backing_off(p, "id", "stranger.0@1");
	await(holds(bench.listeners[0], 1), 5000, "the first owner does not wait for the second");
	cr_assert(claims_is(bench.redis, "id", "stranger.0@1"), "another's claim was taken away");
	cr_assert_gt(claims_ttl_ms(bench.redis, "id"), 30000, "another's lease was changed");
	cr_assert_eq(listener_metric(bench.listeners[0], "wsonce_claims_released_total"), 0);
	let_inserts_pass(bench.rows);
	claims_put_mark(bench.redis, bench.rows, "id", "done@", "");
	ack_expect(p, "id", "duplicate");
}

Test(claim, leases_are_renewed_while_a_row_takes_longer_than_the_ttl, .timeout = 60)
{
	start(1, "--claim-ttl 3");
	struct peer *p = producer(bench.listeners[0]);
	give(p, "before"); /* and the first note is told */
	ack_expect(p, "before", "persisted");
	database_slow_down(bench.rows, SLOW_ROW_MS);
	give(p, "a"); /* in the store */
	await(listener_metric(bench.listeners[0], "wsonce_events{state=\"storing\"}") == 1, 5000);
	char *a = claims_value(bench.redis, "a");
	/* in between: the row may be there by now, and then the mark */
	while (rows_of(bench.rows, "a") == 0)
		cr_assert(claims_is(bench.redis, "a", a) || rows_of(bench.rows, "a") == 1, "its claim is lost");
	ack_expect(p, "a", "persisted");
}

Test(claim, two_processes_of_one_name_are_two_owners, .timeout = 60)
{
	start(2, "--instance-id twin --claim-ttl 30");
	struct database *lock = fleet_lock(bench.rows);
	struct peer *first = producer(bench.listeners[0]), *second = producer(bench.listeners[1]);
	give(first, "id");
	await(claims_begins(bench.redis, "id", "twin."), 5000, "the name is not in the claim");
	give(second, "id");
	await(holds(bench.listeners[1], 1), 5000, "the twin took the claim for its own");
	fleet_unlock(lock);
	ack_expect(first, "id", "persisted");
	ack_expect(second, "id", "duplicate");
}

/* --- acks --- */

Test(claim, nobody_is_acked_before_the_commit, .timeout = 60)
{
	start(2, "");
	struct database *lock = fleet_lock(bench.rows);
	struct peer *owner = producer(bench.listeners[0]), *again = producer(bench.listeners[0]),
		    *holder = producer(bench.listeners[1]);
	give(owner, "id");
	await(claims_has(bench.redis, "id"), 5000);
	give(again, "id");
	give(holder, "id");
	await(holds(bench.listeners[1], 1), 5000);
	await(listener_metric(bench.listeners[0], "wsonce_in_flight") == 2, 5000);
	expect_no_ack(owner);
	expect_no_ack(again);
	expect_no_ack(holder);
	cr_assert_not(claims_begins(bench.redis, "id", "done@"), "marked as done before the commit");
	fleet_unlock(lock);
	ack_expect(owner, "id", "persisted");
	ack_expect(again, "id", "duplicate");
	ack_expect(holder, "id", "duplicate");
}

Test(claim, a_holder_acks_after_the_owner_was_killed_and_only_what_is_committed, .timeout = 60)
{
	start(2, "--claim-ttl 5");
	struct database *lock = fleet_lock(bench.rows);
	struct peer *owner = producer(bench.listeners[0]), *holder = producer(bench.listeners[1]);
	give(owner, "id");
	await(claims_has(bench.redis, "id"), 5000);
	give(holder, "id");
	await(holds(bench.listeners[1], 1), 5000);
	listener_kill(bench.listeners[0]);
	cr_assert_eq(peer_recv_close(owner, 5000), 1006, "a killed listener has said something");
	await(listener_metric(bench.listeners[1], "wsonce_claims_inherited_total") +
			      listener_metric(bench.listeners[1], "wsonce_claims_taken_over_total") >
		      0,
	      ACK_MS);
	expect_no_ack(holder);
	database_long(lock,
		      "select count(pg_terminate_backend(l.pid)) from pg_locks l join pg_class c on c.oid = l.relation "
		      "where c.relname = 'events' and not l.granted");
	fleet_unlock(lock);
	ack_expect(holder, "id", "persisted");
	cr_assert_eq(rows_of(bench.rows, "id"), 1);
}
