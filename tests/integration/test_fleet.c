/* Why wsonce exists: several listeners are given the same events, listeners die and stop at the worst
 * moment, the feed never sends anything again, and each event has one row. */
#include "support.h"

#define WHOLE_MS 20000
#define TAKEN_MS 30000 /* half of a claim's life here: tests/fault/figures measures takeovers */

static struct fleet fleet;

/* --- one instance leads the feed --- */

/* Sends n events, each of which one listener wins. Returns how many claims the others lost. */
static double claims_lost_of(struct fleet *f, long events)
{
	double won = fleet_metric(f, "wsonce_claims_won_total"), lost = fleet_metric(f, "wsonce_claims_lost_total");

	fleet_send(f, events);
	fleet_must_be_whole(f, WHOLE_MS);
	cr_assert_eq(fleet_metric(f, "wsonce_claims_won_total") - won, events);
	return fleet_metric(f, "wsonce_claims_lost_total") - lost;
}

Test(fleet, listeners_that_know_each_other_claim_each_event_once, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "");
	fleet_leader(&fleet, WHOLE_MS);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	/* On a slow machine the preferred one may come late, and then others claim as well: not each time. */
	await(claims_lost_of(&fleet, 100) == 0, WHOLE_MS, "claims are lost however often it is tried");
}

/* The ids have a number at their end, which as text sorts otherwise. */
static long neighbours_out_of_order(struct fleet *f, long after)
{
	return database_long(f->rows,
			     "SELECT count(*) FROM (SELECT n, received_at, lag(n) OVER w AS n_before, "
			     "lag(received_at) OVER w AS received_before FROM (SELECT id, received_at, "
			     "substring(event_id FROM '[0-9]+$')::bigint AS n FROM events WHERE id > %ld) AS e "
			     "WINDOW w AS (ORDER BY id)) AS x WHERE n <= n_before OR received_at <= received_before",
			     after);
}

Test(fleet, events_are_stored_in_the_order_in_which_the_leader_received_them, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "");
	fleet_leader(&fleet, WHOLE_MS);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	long before = database_long(fleet.rows, "SELECT max(id) FROM events");
	fleet_send(&fleet, 3000);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_eq(neighbours_out_of_order(&fleet, before), 0);
}

Test(fleet, copies_settle_by_the_done_channel, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "");
	await((fleet_send(&fleet, 1), fleet_metric(&fleet, "wsonce_done_told_total") > 100), WHOLE_MS,
	      "nobody settles by the channel");
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

Test(fleet, events_of_a_leader_that_has_stopped_are_stored_by_the_others, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "");
	struct listener *leader = fleet.listeners[fleet_leader(&fleet, WHOLE_MS)];
	fleet_must_be_whole(&fleet, WHOLE_MS);
	process_signal(listener_process(leader), SIGSTOP);
	fleet_send(&fleet, 100);
	fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	process_signal(listener_process(leader), SIGCONT);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_gt(fleet_metric(&fleet, "wsonce_deferred_in_vain_total"), 0);
}

/* --- owners that die or sleep --- */

static struct redisd *own_redis; /* NULL: the shared one */

static struct redisd *the_redis(void)
{
	return own_redis ? own_redis : redisd_shared();
}

/* Which listener has the claim on the event, from the name in its value; -1: nobody has. */
static int owner_of(long event)
{
	int owner = -1;
	char *id = suite_text("e-%ld", event);
	char *value = claims_value(the_redis(), id);
	if (value)
		sscanf(value, "listener-%d.", &owner);
	return owner;
}

static long owned_by(const struct fleet *f, int listener)
{
	long n = 0;

	for (long i = 1; i <= f->sent; i++)
		n += owner_of(i) == listener;
	return n;
}

static bool all_are_claimed(const struct fleet *f)
{
	return claims_open(the_redis()) == f->sent &&
	       fleet_metric((struct fleet *)f, "wsonce_in_flight") == f->size * f->sent;
}

/* What a dead listener had sent is not to be committed by a server process that outlives it. */
static void end_backends_of(struct database *db, int listener)
{
	database_long(db,
		      "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity "
		      "where datname = current_database() and application_name = 'listener-%d'",
		      listener);
}

Test(fleet, events_of_killed_owners_are_stored_by_the_others, .timeout = 120)
{
	long left_behind = 0;

	fleet_start(&fleet, 5, NULL, NULL, "--claim-ttl 3");
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 200);
	await(all_are_claimed(&fleet), WHOLE_MS, "not all are claimed");
	int victim = owner_of(1), second = (victim + 1) % 5;
	left_behind = owned_by(&fleet, victim) + owned_by(&fleet, second);
	listener_kill(fleet.listeners[victim]);
	listener_kill(fleet.listeners[second]);
	end_backends_of(lock, victim);
	end_backends_of(lock, second);
	fleet_unlock(lock);
	cr_assert_gt(left_behind, 0);
	fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	fleet_launch_one(&fleet, victim);
	fleet_launch_one(&fleet, second);
	fleet_wait_ready(&fleet);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

/* The owner has the claims, and dies before Postgres has received anything from it. */
static void orphan(struct fleet *f, struct database *lock, int how)
{
	fleet_send(f, 200);
	await(all_are_claimed(f), WHOLE_MS, "not all are claimed");
	int victim = owner_of(1);
	process_signal(listener_process(f->listeners[victim]), how);
	end_backends_of(lock, victim);
	fleet_unlock(lock);
}

Test(fleet, events_of_a_killed_owner_are_stored_long_before_its_claims_expire, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--claim-ttl 60");
	orphan(&fleet, fleet_lock(fleet.rows), SIGKILL);
	fleet_wait_rows(&fleet, fleet.sent, TAKEN_MS);
}

Test(fleet, events_of_a_frozen_owner_are_stored_after_its_heartbeats_have_ended, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--claim-ttl 60");
	orphan(&fleet, fleet_lock(fleet.rows), SIGSTOP);
	fleet_wait_rows(&fleet, fleet.sent, TAKEN_MS);
}

Test(fleet, claims_of_a_frozen_owner_are_taken_over_once, .timeout = 120)
{
	fleet_start(&fleet, 2, NULL, NULL, "--claim-ttl 60");
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 200);
	await(all_are_claimed(&fleet), WHOLE_MS, "not all are claimed");
	int victim = owner_of(1);
	struct listener *heir = fleet.listeners[1 - victim];
	process_signal(listener_process(fleet.listeners[victim]), SIGSTOP);
	end_backends_of(lock, victim);
	fleet_unlock(lock);
	fleet_wait_rows(&fleet, fleet.sent, TAKEN_MS);
	/* Not always all: while the lock lasts, a listener that stores nothing gives claims back. */
	double inherited = listener_metric(heir, "wsonce_claims_inherited_total");
	cr_assert_gt(inherited, 0);
	process_signal(listener_process(fleet.listeners[victim]), SIGCONT);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_claims_inherited_total"), inherited, "one stall, one takeover");
}

/* Its statement waits, and its heartbeats do not. */
Test(fleet, claims_of_an_owner_that_is_merely_slow_stay_its_own, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--claim-ttl 60");
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 200);
	await(all_are_claimed(&fleet), WHOLE_MS, "not all are claimed");
	int64_t until_ms = wait_now_ms() + 5000; /* more than heartbeats last */
	await(wait_now_ms() > until_ms, WHOLE_MS);
	fleet_unlock(lock);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_claims_inherited_total"), 0);
}

/* What Redis knows of clients is not for each user. */
Test(fleet, a_user_of_redis_who_may_not_ask_for_clients_waits_for_heartbeats, .timeout = 120)
{
	own_redis = redisd_new();
	redisd_command(own_redis, "ACL SETUSER default -client|list");
	struct listener_options options = {.redis = redisd_url(own_redis)};

	fleet_start(&fleet, 3, NULL, &options, "--claim-ttl 60");
	orphan(&fleet, fleet_lock(fleet.rows), SIGKILL);
	fleet_wait_rows(&fleet, fleet.sent, TAKEN_MS);
}

Test(fleet, the_last_holder_stores_everything_when_all_others_are_killed, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--claim-ttl 1");
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 300);
	await(all_are_claimed(&fleet), WHOLE_MS, "not all are claimed");
	int last = (owner_of(1) + 1) % 3;
	for (int i = 0; i < 3; i++)
		if (i != last) {
			listener_kill(fleet.listeners[i]);
			end_backends_of(lock, i);
		}
	fleet_unlock(lock);
	fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	await(listener_metric(fleet.listeners[last], "wsonce_in_flight") == 0, WHOLE_MS);
	cr_assert_eq(fleet_rows(&fleet), fleet.sent);
}

/* --- without Redis --- */

/* The ids in an order of its own for each listener: up, down, and by steps of a prime. */
static void send_in_order(struct peer *p, int order, int count)
{
	for (int i = 0; i < count; i++) {
		int n = order == 0 ? i : order == 1 ? count - 1 - i : (int)((long)i * 7919 % count);

		cr_assert(peer_sendf(p, "{\"event_id\":\"e-%d\",\"payload\":{\"n\":%d}}", n + 1, n + 1));
	}
}

Test(fleet, listeners_without_redis_do_not_deadlock_on_ids_in_different_orders, .timeout = 120)
{
	struct peer *peers[3];
	struct listener_options options = {.redis = "none"};
	int count = 4000;

	fleet_start(&fleet, 3, NULL, &options, "--batch-max 200");
	struct database *lock = fleet_lock(fleet.rows);
	for (int i = 0; i < 3; i++) {
		peers[i] = peer_open_events(listener_ingest_port(fleet.listeners[i]), "wsonce.ack.v1");
		send_in_order(peers[i], i, count);
	}
	await(fleet_metric(&fleet, "wsonce_received_total") == 3 * count, WHOLE_MS);
	fleet_unlock(lock);
	fleet.sent = count;
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_persisted_total"), count);
	for (int i = 0; i < 3; i++) /* a backend tells its statistics when it ends, if not before */
		cr_assert_eq(listener_stop(fleet.listeners[i]), 0);
	cr_assert_eq(
		database_long(fleet.rows, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"),
		0);
}

/* A fleet that knows its members when its Redis is killed. */
static void start_without_redis(int size)
{
	own_redis = redisd_new();
	struct listener_options options = {.redis = redisd_url(own_redis)};

	fleet_start(&fleet, size, NULL, &options, "");
	fleet_leader(&fleet, WHOLE_MS);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	redisd_kill(own_redis);
	await(fleet_metric(&fleet, "wsonce_redis_up") == 0, WHOLE_MS);
}

Test(fleet, without_redis_listeners_leave_events_to_the_leader_they_had, .timeout = 120)
{
	start_without_redis(5);
	for (int i = 0; i < 10; i++) {
		fleet_send(&fleet, 50);
		fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	}
	fleet_must_be_whole(&fleet, WHOLE_MS);
	cr_assert_gt(fleet_metric(&fleet, "wsonce_deferred_total"), 1000, "of 2,000 copies");
}

Test(fleet, without_redis_events_of_a_frozen_listener_are_stored_by_the_others, .timeout = 120)
{
	start_without_redis(3);
	process_signal(listener_process(fleet.listeners[0]), SIGSTOP);
	fleet_send(&fleet, 200);
	fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	process_signal(listener_process(fleet.listeners[0]), SIGCONT);
	fleet_must_be_whole(&fleet, WHOLE_MS);
}

/* --- an event that Postgres never takes --- */

/* Rows whose id begins with "bad" are refused. Tries are counted in a sequence, which a rollback
 * does not turn back. */
static void refuse_bad_rows(struct database *db)
{
	database_exec(db, "create sequence tries");
	database_exec(db, "create function refuse() returns trigger language plpgsql as $$ begin "
			  "if new.event_id like 'bad%%' then perform nextval('tries'); "
			  "raise exception 'we do not like %%', new.event_id; end if; return new; end $$");
	database_exec(db, "create trigger refuse before insert on events for each row execute function refuse()");
}

static long dead_letters(struct database *db, const char *id)
{
	return database_long(
		db, "select count(*) from dead_letters where event_id = '%s' and reason like '%%we do not like %s%%'",
		id, id);
}

static void must_be_rejected(struct listener *l, const char *id)
{
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	cr_assert(peer_sendf(p, "{\"event_id\":\"%s\",\"payload\":{}}", id));
	char *ack = peer_recv(p, 10000);
	cr_assert(ack && strstr(ack, "\"rejected\"") && strstr(ack, "\"reason\""), "the ack is %s", ack);
	peer_free(p);
}

Test(fleet, tries_of_an_event_are_bounded_and_end_in_one_dead_letter, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--max-attempts 3 --claim-ttl 5");
	refuse_bad_rows(fleet.rows);
	feed_sendf(fleet.feed, "{\"event_id\":\"bad\",\"payload\":{}}");
	await(dead_letters(fleet.rows, "bad") == 1, WHOLE_MS, "no dead letter of it");
	await(fleet_metric(&fleet, "wsonce_dead_lettered_total") == 3, WHOLE_MS, "not settled everywhere");
	long tries = database_long(fleet.rows, "select last_value from tries");
	cr_assert(tries >= 3 && tries <= 3 * 3, "tried %ld times", tries);
	cr_assert(claims_begins(redisd_shared(), "bad", "dead@"));
	for (int i = 0; i < 3; i++)
		must_be_rejected(fleet.listeners[i], "bad");
	cr_assert_eq(database_long(fleet.rows, "select count(*) from dead_letters"), 1);
	cr_assert_eq(fleet_rows(&fleet), 0);
}

Test(fleet, a_refused_event_does_not_keep_its_batch_from_being_stored, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--max-attempts 3 --claim-ttl 5");
	refuse_bad_rows(fleet.rows);
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 1); /* the first batch waits for the lock, and the next one fills */
	await(all_are_claimed(&fleet), WHOLE_MS);
	fleet_send(&fleet, 200);
	feed_sendf(fleet.feed, "{\"event_id\":\"bad\",\"payload\":{}}");
	fleet_send(&fleet, 200);
	await(fleet_metric(&fleet, "wsonce_received_total") == 3 * 402, WHOLE_MS);
	fleet_unlock(lock);
	fleet_wait_rows(&fleet, fleet.sent, WHOLE_MS);
	await(dead_letters(fleet.rows, "bad") == 1, WHOLE_MS, "no dead letter of it");
	await(fleet_metric(&fleet, "wsonce_in_flight") == 0, WHOLE_MS);
	cr_assert_eq(database_long(fleet.rows, "select count(*) from dead_letters"), 1);
	cr_assert_eq(fleet_rows(&fleet), fleet.sent);
	cr_assert_eq(fleet_metric(&fleet, "wsonce_persisted_total"), fleet.sent);
	for (int i = 0; i < 3; i++)
		cr_assert(fleet_is_balanced(fleet.listeners[i]));
}
