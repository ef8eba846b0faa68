/* Redis fails while three listeners work: no event is lost or doubled, no listener crashes, and claims are used again
 * afterwards. */
#include "support.h"

#define WHOLE_MS 20000
#define BACK_MS  10000
#define SOON_MS  5000 /* for a busy machine; far below the TTLs of the claims */

static struct bench {
	struct fleet fleet;
	struct database *rows;
	struct redisd *redis;
} bench;

static void start(const char *flags)
{
	bench.rows = database_new();
	bench.redis = redisd_new();
	fleet_start(&bench.fleet, 3, bench.rows, &(struct listener_options){.redis = redisd_url(bench.redis)}, flags);
}

/* A listener may still have to read copies of events that are all stored. It wins claims for those whose marks Redis
 * has lost or never had. */
static void must_have_heard_all(void)
{
	double all = (double)bench.fleet.size * (double)bench.fleet.sent;

	await(fleet_metric(&bench.fleet, "wsonce_received_total") == all, WHOLE_MS,
	      "not everybody heard every event: %.0f deliveries of %.0f",
	      fleet_metric(&bench.fleet, "wsonce_received_total"), all);
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
}

/* Expects everything to be stored once, and new events to be claimed and marked again. */
static void must_work_again(void)
{
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	await(fleet_metric(&bench.fleet, "wsonce_redis_up") == 3, BACK_MS, "not everybody came back to Redis");
	must_have_heard_all();
	fleet_must_claim(&bench.fleet, bench.redis, WHOLE_MS);
}

/* A part of the stream, of which some is stored and the rest is under way. */
static void send_some(void)
{
	fleet_send(&bench.fleet, 1000);
	fleet_wait_rows(&bench.fleet, bench.fleet.sent - 900, WHOLE_MS);
}

Test(redis_faults, events_are_stored_while_redis_is_gone, .timeout = 120)
{
	start("");
	send_some();
	redisd_kill(bench.redis);
	for (int i = 0; i < 3; i++) {
		fleet_send(&bench.fleet, 1000);
		fleet_wait_rows(&bench.fleet, bench.fleet.sent, WHOLE_MS);
	}
	for (int i = 0; i < 3; i++) {
		char *page = listener_http(bench.fleet.listeners[i], "/readyz", NULL);

		cr_assert(strncmp(page, "degraded: redis is down, the unique key decides\n", 48) == 0, "%s", page);
	}
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	redisd_start(bench.redis);
	send_some();
	must_work_again();
}

Test(redis_faults, a_frozen_redis_delays_an_event_by_its_timeout_only, .timeout = 120)
{
	start("--redis-timeout 1 --claim-ttl 600");
	send_some();
	redisd_pause(bench.redis);
	fleet_send(&bench.fleet, 1000);
	fleet_wait_rows(&bench.fleet, bench.fleet.sent, 4 * SOON_MS);
	fleet_send(&bench.fleet, 1000); /* after the listeners have noticed that it is gone */
	fleet_wait_rows(&bench.fleet, bench.fleet.sent, 4 * SOON_MS);
	redisd_resume(bench.redis);
	send_some();
	must_work_again();
	await(claims_open(bench.redis) == 0, BACK_MS, "%ld claims are left", claims_open(bench.redis));
}

/* A held event, too, whose owner's claim is in the Redis that does not answer. */
Test(redis_faults, a_held_event_is_stored_when_redis_freezes, .timeout = 120)
{
	start("--redis-timeout 1 --claim-ttl 600");
	claims_put(bench.redis, "e-1", "stranger.0@1", 0);
	fleet_send(&bench.fleet, 1);
	await(fleet_metric(&bench.fleet, "wsonce_holds_total") == 3, WHOLE_MS);
	redisd_pause(bench.redis);
	fleet_wait_rows(&bench.fleet, 1, 4 * SOON_MS);
	await(fleet_metric(&bench.fleet, "wsonce_in_flight") == 0, 4 * SOON_MS, "not everybody settled it");
	redisd_resume(bench.redis);
	must_work_again();
}

Test(redis_faults, events_are_stored_while_redis_refuses_writes, .timeout = 120)
{
	/* If a mark is refused, its claim stays until the TTL, which is longer than the test may take. */
	char *flags = suite_text("--claim-ttl %ld", (long)wait_stretch_ms(SOON_MS) / 1000 + 3);
	start(flags);
	send_some();
	redisd_command(bench.redis, "CONFIG SET maxmemory-policy noeviction");
	redisd_command(bench.redis, "CONFIG SET maxmemory 1mb");
	fleet_send(&bench.fleet, 2000);
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	cr_assert_gt(fleet_metric(&bench.fleet, "wsonce_redis_errors_total"), 0, "Redis did not refuse anything");
	fleet_send(&bench.fleet, 500); /* a refused claim belongs to no listener, so there is no wait */
	fleet_wait_rows(&bench.fleet, bench.fleet.sent, SOON_MS);
	redisd_command(bench.redis, "CONFIG SET maxmemory 0");
	send_some();
	must_work_again();
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
		await(listener_count_logged(l, "\"redis rejects claims; the unique key decides\" reason=") == spell,
		      WHOLE_MS, "%d: %s", spell, process_errors(listener_process(l)));
		redisd_command(redis, "CONFIG SET maxmemory 0");
		await((peer_sendf(producer, "{\"event_id\":\"%d\",\"payload\":1}", suite_number()),
		       listener_count_logged(l, "\"redis takes claims again\" times=") == spell),
		      WHOLE_MS, "%d: %s", spell, process_errors(listener_process(l)));
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
	await((log = process_errors(listener_process(l)), strstr(log, "allkeys-lru") != NULL), WHOLE_MS, "%s", log);
	cr_assert(strstr(log, "redis may evict claims"), "%s", log);
}

/* Any call, even a heartbeat, that finds a script missing loads all of them. Flush them all the time, so that renewals
 * do it, too. */
static double renewals_without_scripts(void)
{
	redisd_command(bench.redis, "SCRIPT FLUSH");
	return fleet_metric(&bench.fleet, "wsonce_claims_renewed_total");
}

Test(redis_faults, forgotten_scripts_are_loaded_again, .timeout = 120)
{
	start("--claim-ttl 3");
	struct database *lock = fleet_lock(bench.rows);
	fleet_send(&bench.fleet, 100);
	await(claims_open(bench.redis) == 100, WHOLE_MS);
	double renewed = renewals_without_scripts();
	/* Only of what is in a statement, perhaps one event: the claims of the others are released. */
	await(renewals_without_scripts() > renewed, WHOLE_MS);
	cr_assert_eq(fleet_metric(&bench.fleet, "wsonce_claims_expired_total"), 0, "claims were lost over it");
	fleet_unlock(lock);
	must_work_again();
}

Test(redis_faults, listeners_start_without_redis_and_use_it_when_it_comes, .timeout = 120)
{
	bench = (struct bench){.rows = database_new(), .redis = redisd_new()};

	redisd_stop(bench.redis);
	fleet_start(&bench.fleet, 3, bench.rows,
		    &(struct listener_options){.redis = redisd_url(bench.redis), .is_redis_away = true}, "");
	fleet_send(&bench.fleet, 1000);
	fleet_must_be_whole(&bench.fleet, WHOLE_MS);
	redisd_start(bench.redis);
	send_some();
	must_work_again();
}
