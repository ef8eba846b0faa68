/* Redis fails while three listeners work: no event is lost or doubled, no listener crashes, and claims are used again
 * afterwards. */
#include "support.h"

#define WHOLE_MS 20000
#define BACK_MS  10000
#define SOON_MS  5000 /* for a busy machine; far below the TTLs of the claims */

struct bench {
	struct fleet fleet;
	struct database *rows;
	struct redisd *redis;
};

static void start(struct bench *b, const char *flags)
{
	b->rows = database_new();
	b->redis = redisd_new();
	fleet_start(&b->fleet, 3, b->rows, &(struct listener_options){.redis = redisd_url(b->redis)}, flags);
}

static bool is_redis_up(struct bench *b)
{
	return fleet_metric(&b->fleet, "wsonce_redis_up") == 3;
}

/* A listener may still have to read copies of events that are all stored. It wins claims for those whose marks Redis
 * has lost or never had. */
static void must_have_heard_all(struct bench *b)
{
	double all = (double)b->fleet.size * (double)b->fleet.sent;

	cr_assert(wait_until(fleet_metric(&b->fleet, "wsonce_received_total") == all, WHOLE_MS),
		  "not everybody heard every event: %.0f deliveries of %.0f",
		  fleet_metric(&b->fleet, "wsonce_received_total"), all);
	fleet_must_be_whole(&b->fleet, WHOLE_MS);
}

/* Expects everything to be stored once, and new events to be claimed and marked again. */
static void must_work_again(struct bench *b)
{
	fleet_must_be_whole(&b->fleet, WHOLE_MS);
	cr_assert(wait_until(is_redis_up(b), BACK_MS), "not everybody came back to Redis");
	must_have_heard_all(b);
	fleet_must_claim(&b->fleet, b->redis, WHOLE_MS);
}

/* A part of the stream, of which some is stored and the rest is under way. */
static void send_some(struct bench *b)
{
	fleet_send(&b->fleet, 1000);
	fleet_wait_rows(&b->fleet, b->fleet.sent - 900, WHOLE_MS);
}

Test(redis_faults, events_are_stored_while_redis_is_gone, .timeout = 120)
{
	struct bench b;

	start(&b, "");
	send_some(&b);
	redisd_kill(b.redis);
	for (int i = 0; i < 3; i++) {
		fleet_send(&b.fleet, 1000);
		fleet_wait_rows(&b.fleet, b.fleet.sent, WHOLE_MS);
	}
	for (int i = 0; i < 3; i++) {
		char *page = listener_http(b.fleet.listeners[i], "/readyz", NULL);

		cr_assert(strncmp(page, "degraded: redis is down, the unique key decides\n", 48) == 0, "%s", page);
	}
	fleet_must_be_whole(&b.fleet, WHOLE_MS);
	redisd_start(b.redis);
	send_some(&b);
	must_work_again(&b);
}

Test(redis_faults, a_frozen_redis_delays_an_event_by_its_timeout_only, .timeout = 120)
{
	struct bench b;

	start(&b, "--redis-timeout 1 --claim-ttl 600");
	send_some(&b);
	redisd_pause(b.redis);
	fleet_send(&b.fleet, 1000);
	fleet_wait_rows(&b.fleet, b.fleet.sent, 1000 + SOON_MS);
	fleet_send(&b.fleet, 1000); /* after the listeners have noticed that it is gone */
	fleet_wait_rows(&b.fleet, b.fleet.sent, 1000 + SOON_MS);
	redisd_resume(b.redis);
	send_some(&b);
	must_work_again(&b);
}

/* A held event, too, whose owner's claim is in the Redis that does not answer. */
Test(redis_faults, a_held_event_is_stored_when_redis_freezes, .timeout = 120)
{
	struct bench b;

	start(&b, "--redis-timeout 1 --claim-ttl 600");
	claims_put(b.redis, "e-1", "stranger.0@1", 0);
	fleet_send(&b.fleet, 1);
	cr_assert(wait_until(fleet_metric(&b.fleet, "wsonce_holds_total") == 3, WHOLE_MS));
	redisd_pause(b.redis);
	fleet_wait_rows(&b.fleet, 1, 1000 + SOON_MS);
	cr_assert(wait_until(fleet_metric(&b.fleet, "wsonce_in_flight") == 0, 1000 + SOON_MS),
		  "not everybody settled it");
	redisd_resume(b.redis);
	must_work_again(&b);
}

Test(redis_faults, events_are_stored_while_redis_refuses_writes, .timeout = 120)
{
	struct bench b;

	/* If a mark is refused, its claim stays until the TTL, which is longer than the test may take. */
	char *flags = suite_text("--claim-ttl %ld", (long)wait_stretch_ms(SOON_MS) / 1000 + 3);
	start(&b, flags);
	send_some(&b);
	redisd_command(b.redis, "CONFIG SET maxmemory-policy noeviction");
	redisd_command(b.redis, "CONFIG SET maxmemory 1mb");
	fleet_send(&b.fleet, 2000);
	fleet_must_be_whole(&b.fleet, WHOLE_MS);
	cr_assert_gt(fleet_metric(&b.fleet, "wsonce_redis_errors_total"), 0, "Redis did not refuse anything");
	fleet_send(&b.fleet, 500); /* a refused claim belongs to no listener, so there is no wait */
	fleet_wait_rows(&b.fleet, b.fleet.sent, SOON_MS);
	redisd_command(b.redis, "CONFIG SET maxmemory 0");
	send_some(&b);
	must_work_again(&b);
}

Test(redis_faults, each_spell_of_refused_writes_is_logged, .timeout = 120)
{
	struct database *rows = database_new();
	struct redisd *redis = redisd_new();
	struct listener *l =
		listener_start(&(struct listener_options){.database = rows, .redis = redisd_url(redis)}, NULL);
	struct peer *producer = peer_open_events(listener_ingest_port(l), NULL);

	redisd_command(redis, "CONFIG SET maxmemory-policy noeviction");
	for (int spell = 1; spell <= 2; spell++) {
		redisd_command(redis, "CONFIG SET maxmemory 1");
		for (int i = 0; i < 20; i++)
			peer_sendf(producer, "{\"event_id\":\"%d\",\"payload\":1}", suite_number());
		cr_assert(wait_until(listener_count_logged(
					     l, "\"redis rejects claims; the unique key decides\" reason=") == spell,
				     WHOLE_MS),
			  "%d: %s", spell, process_errors(listener_process(l)));
		redisd_command(redis, "CONFIG SET maxmemory 0");
		cr_assert(wait_until((peer_sendf(producer, "{\"event_id\":\"%d\",\"payload\":1}", suite_number()),
				      listener_count_logged(l, "\"redis takes claims again\" times=") == spell),
				     WHOLE_MS),
			  "%d: %s", spell, process_errors(listener_process(l)));
	}
	cr_assert_eq(listener_stop(l), 0);
}

Test(redis_faults, an_eviction_policy_that_may_drop_claims_is_warned_about)
{
	struct database *rows = database_new();
	struct redisd *redis = redisd_new();
	char *log = NULL;

	redisd_command(redis, "CONFIG SET maxmemory 100mb");
	redisd_command(redis, "CONFIG SET maxmemory-policy allkeys-lru");
	struct listener *l =
		listener_start(&(struct listener_options){.database = rows, .redis = redisd_url(redis)}, NULL);
	cr_assert(wait_until((log = process_errors(listener_process(l)), strstr(log, "allkeys-lru") != NULL), WHOLE_MS),
		  "%s", log);
	cr_assert(strstr(log, "redis may evict claims"), "%s", log);
}

/* Any call, even a heartbeat, that finds a script missing loads all of them. Flush them all the time, so that renewals
 * do it, too. */
static double renewals_without_scripts(struct bench *b)
{
	redisd_command(b->redis, "SCRIPT FLUSH");
	return fleet_metric(&b->fleet, "wsonce_claims_renewed_total");
}

Test(redis_faults, forgotten_scripts_are_loaded_again, .timeout = 120)
{
	struct bench b;

	start(&b, "--claim-ttl 3");
	struct database *lock = fleet_lock(b.rows);
	fleet_send(&b.fleet, 100);
	cr_assert(wait_until(claims_open(b.redis) == 100, WHOLE_MS));
	double renewed = renewals_without_scripts(&b);
	/* Only of what is in a statement, perhaps one event: the claims of the others are released. */
	cr_assert(wait_until(renewals_without_scripts(&b) > renewed, WHOLE_MS));
	cr_assert_eq(fleet_metric(&b.fleet, "wsonce_claims_expired_total"), 0, "claims were lost over it");
	fleet_unlock(lock);
	must_work_again(&b);
}

Test(redis_faults, listeners_start_without_redis_and_use_it_when_it_comes, .timeout = 120)
{
	struct bench b = {.rows = database_new(), .redis = redisd_new()};

	redisd_stop(b.redis);
	fleet_start(&b.fleet, 3, b.rows,
		    &(struct listener_options){.redis = redisd_url(b.redis), .is_redis_away = true}, "");
	fleet_send(&b.fleet, 1000);
	fleet_must_be_whole(&b.fleet, WHOLE_MS);
	redisd_start(b.redis);
	send_some(&b);
	must_work_again(&b);
}
