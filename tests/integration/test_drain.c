/* SIGTERM: a listener stores what it has read before it exits, and gives back what it cannot store in time. */
#include "support.h"

#define WHOLE_MS 20000
#define MARK_MS  20000 /* for Redis to handle what was sent; far below any TTL here */

static struct fleet fleet;

/* Sends events until the listener has ended or the fleet is complete again. */
static bool has_ended(struct fleet *f, int i)
{
	fleet_send(f, 10);
	return process_wait(listener_process(f->listeners[i]), 0) != -1;
}

static bool is_complete(struct fleet *f, int i)
{
	fleet_send(f, 10);
	return listener_status(f->listeners[i], "/readyz") == 200 && feed_clients(f->feed) == f->size;
}

/* Sends events until the listener has a batch in Postgres. */
static bool has_work(struct fleet *f, int i)
{
	fleet_send(f, 10);
	return listener_metric(f->listeners[i], "wsonce_events{state=\"storing\"}") > 0;
}

static void restart_under_load(struct fleet *f, int i)
{
	struct listener *l = f->listeners[i];
	struct database *lock = fleet_lock(f->rows);

	await(has_work(f, i), WHOLE_MS);
	process_signal(listener_process(l), SIGTERM);
	await(listener_status(l, "/readyz") == 503, WHOLE_MS, "listener %d does not say that it leaves", i);
	fleet_unlock(lock);
	await(has_ended(f, i), WHOLE_MS, "listener %d does not leave: %s", i, process_last_words(listener_process(l)));
	cr_assert_eq(process_wait(listener_process(l), 0), 0, "listener %d has left something: %s", i,
		     process_last_words(listener_process(l)));
	fleet_launch_one(f, i);
	await(is_complete(f, i), WHOLE_MS);
}

/* If a claim were left behind, its event would wait for an hour on the other listeners. */
Test(drain, a_rolling_restart_under_load_loses_nothing_and_leaves_no_claim, .timeout = 120)
{
	fleet_start(&fleet, 3, NULL, NULL, "--claim-ttl 3600 --drain-timeout 60");
	fleet_send(&fleet, 500);
	for (int i = 0; i < 3; i++)
		restart_under_load(&fleet, i);
	fleet_must_be_whole(&fleet, WHOLE_MS);
	await(claims_open(redisd_shared()) == 0, MARK_MS, "%ld claims are left", claims_open(redisd_shared()));
	await(redisd_count(redisd_shared(), redisd_prefix()) == fleet.sent, MARK_MS, "not each event has its mark");
}

Test(drain, what_cannot_be_stored_in_time_is_given_back, .timeout = 120)
{
	fleet_start(&fleet, 1, NULL, NULL, "--claim-ttl 60 --drain-timeout 1");
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 1500); /* more than one script call gives back */
	await(claims_open(redisd_shared()) == fleet.sent, WHOLE_MS);
	int64_t asked_ms = wait_now_ms();
	cr_assert_eq(listener_stop(fleet.listeners[0]), 1, "it says that nothing was left");
	cr_assert_geq(wait_now_ms() - asked_ms, 900, "it did not use its time");
	cr_assert_leq(wait_now_ms() - asked_ms, wait_stretch_ms(9000), "it took too much time");
	await(redisd_count(redisd_shared(), redisd_prefix()) == 0, MARK_MS, "%ld claims are kept",
	      redisd_count(redisd_shared(), redisd_prefix()));
	fleet_unlock(lock);
}

/* A claim that is given back goes to a listener that holds a copy, without waiting for the TTL of a minute. */
Test(drain, what_one_gives_back_a_holder_stores, .timeout = 120)
{
	fleet_start(&fleet, 2, NULL, NULL, "--claim-ttl 60 --drain-timeout 1");
	struct database *lock = fleet_lock(fleet.rows);
	fleet_send(&fleet, 300);
	await(fleet_metric(&fleet, "wsonce_in_flight") == 2 * fleet.sent, WHOLE_MS);
	await(claims_open(redisd_shared()) == fleet.sent, WHOLE_MS);
	listener_stop(fleet.listeners[0]);
	fleet_unlock(lock);
	fleet_wait_rows(&fleet, fleet.sent, 5000);
	await(listener_metric(fleet.listeners[1], "wsonce_in_flight") == 0, 5000);
	await(claims_open(redisd_shared()) == 0, MARK_MS);
}

/* The listener does not wait for another listener's claim. */
Test(drain, held_events_are_stored_before_leaving, .timeout = 120)
{
	char id[40];

	fleet_start(&fleet, 1, NULL, NULL, "--claim-ttl 60");
	for (int i = 1; i <= 20; i++) {
		snprintf(id, sizeof id, "e-%d", i);
		claims_put(redisd_shared(), id, "stranger.0@1", 60000);
	}
	fleet_send(&fleet, 20);
	await(listener_metric(fleet.listeners[0], "wsonce_holds_total") == 20, WHOLE_MS);
	cr_assert_eq(fleet_rows(&fleet), 0);
	cr_assert_eq(listener_stop(fleet.listeners[0]), 0);
	cr_assert_eq(fleet_rows(&fleet), 20);
	await(claims_open(redisd_shared()) == 0, MARK_MS);
}

/* A listener that drains and cannot, since its row is locked. */
static struct database *begin_drain(struct fleet *f, struct database *rows)
{
	fleet_start(f, 1, rows, NULL, "--drain-timeout 60");
	struct database *lock = fleet_lock(rows);

	fleet_send(f, 10);
	await(claims_open(redisd_shared()) == 10, WHOLE_MS);
	process_signal(listener_process(f->listeners[0]), SIGTERM);
	await(listener_status(f->listeners[0], "/readyz") == 503, WHOLE_MS, "it does not drain");
	return lock;
}

#define GRACE_MS 1000 /* how long producers without acks are read after SIGTERM */

/* Makes a listener drain behind a locked table, and sends one more event after a quarter of the grace time. Returns
 * true if that was in time; then the event has been read. */
static bool send_in_grace(struct fleet *f, int number)
{
	struct listener *l = f->listeners[0];
	struct peer *p = peer_open_events(listener_ingest_port(l), NULL);
	struct database *lock = fleet_lock(f->rows);

	peer_sendf(p, "{\"event_id\":\"early-%d\"}", number);
	await(listener_metric(l, "wsonce_in_flight") == 1, WHOLE_MS);
	int64_t begin_ms = wait_now_ms();
	process_signal(listener_process(l), SIGTERM);
	await(listener_status(l, "/readyz") == 503, WHOLE_MS, "it does not drain");
	wait_pause_ms(wait_left_ms(begin_ms + GRACE_MS / 4)); /* the test is about time */
	peer_send_text(p, "{\"event_id\":\"late\"}");
	bool is_in_time = wait_now_ms() < begin_ms + 3 * GRACE_MS / 4;
	cr_assert(!is_in_time || wait_until(listener_metric(l, "wsonce_in_flight") == 2, WHOLE_MS), "it is not read");
	fleet_unlock(lock);
	cr_assert_eq(process_wait(listener_process(l), WHOLE_MS), 0);
	peer_free(p);
	return is_in_time;
}

/* They get no acks, so they cannot send an event again to another listener. */
Test(drain, what_a_producer_without_acks_sends_within_the_grace_is_stored, .timeout = 120)
{
	fleet_start(&fleet, 1, NULL, NULL, "--drain-timeout 60");
	for (int tries = 1; !send_in_grace(&fleet, tries); tries++) {
		cr_assert_lt(tries, 10, "this machine is too slow to say");
		fleet_launch_one(&fleet, 0);
		listener_wait_ready(fleet.listeners[0]);
	}
	cr_assert_eq(database_long(fleet.rows, "select count(*) from events where event_id = 'late'"), 1);
}

Test(drain, a_second_sigterm_leaves_at_once_but_for_the_first_second, .timeout = 120)
{
	struct database *rows = database_new();
	int64_t begin_ms = wait_now_ms();
	struct database *lock = begin_drain(&fleet, rows);
	struct process *process = listener_process(fleet.listeners[0]);
	int64_t begun_ms = wait_now_ms();

	await((process_signal(process, SIGTERM), process_wait(process, 100) == 1), WHOLE_MS);
	cr_assert_geq(wait_now_ms() - begin_ms, 1000, "it took a signal that came twice for a second one");
	cr_assert_leq(wait_now_ms() - begun_ms, wait_stretch_ms(20000));
	fleet_unlock(lock);
}

/* Without Redis there are no claims to give back, so there is no reason to wait. */
Test(drain, a_frozen_redis_does_not_keep_a_listener_from_leaving, .timeout = 120)
{
	struct redisd *redis = redisd_new();

	fleet_start(&fleet, 1, NULL, &(struct listener_options){.redis = redisd_url(redis)},
		    "--redis-timeout 1 --drain-timeout 60");
	redisd_pause(redis);
	fleet_send(&fleet, 100);
	await(listener_metric(fleet.listeners[0], "wsonce_received_total") == 100, WHOLE_MS);
	process_signal(listener_process(fleet.listeners[0]), SIGTERM);
	cr_assert_eq(process_wait(listener_process(fleet.listeners[0]), 15000), 0);
	cr_assert_eq(fleet_rows(&fleet), 100);
}
