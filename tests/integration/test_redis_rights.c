/* A Redis user with exactly the rights in docs/security.md. */
#include "support.h"

#define SOON_MS  20000
#define PASSWORD "a-password-of-the-fleet"

static struct fleet fleet;
static struct redisd *redis;

static void set_up(void)
{
	redis = redisd_new();
}

TestSuite(redis_rights, .init = set_up);

/* Creates the user without one right ("": with all). With a feed, a lease and a lock, the listener uses every
 * command. */
static void start(const char *missing)
{
	struct listener_options options = {
		.redis = suite_text("redis://fleet:" PASSWORD "@127.0.0.1:%d/0", redisd_port(redis)),
		.is_redis_away = true};

	free(redisd_command(redis, "ACL SETUSER fleet reset on >" PASSWORD " ~%s* ~wsonce:* -@all " REDISD_RIGHTS,
			    redisd_prefix()));
	if (*missing)
		free(redisd_command(redis, "ACL SETUSER fleet -%s", missing));
	fleet_start(&fleet, 2, NULL, &options, "--claim-ttl 1s --drain-timeout 1s");
}

/* Renewals, a claim that is given back at the end, beats. */
static void work(void)
{
	struct database *lock = fleet_lock(fleet.rows);

	fleet_send(&fleet, 100);
	wait_until(fleet_metric(&fleet, "wsonce_claims_renewed_total") > 0, 2000);
	fleet_unlock(lock);
	fleet_wait_rows(&fleet, 100, SOON_MS);
}

static bool has_either_logged(const char *text)
{
	return listener_has_logged(fleet.listeners[0], text) || listener_has_logged(fleet.listeners[1], text);
}

Test(redis_rights, those_that_are_listed_are_enough)
{
	start("");
	fleet_wait_ready(&fleet);
	work();
	fleet_must_claim(&fleet, redis, SOON_MS);
	fleet_must_be_whole(&fleet, SOON_MS);
	cr_expect_gt(fleet_metric(&fleet, "wsonce_claims_renewed_total"), 0);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(listener_stop(fleet.listeners[i]), 0);
	for (int i = 0; i < 2; i++)
		cr_expect_not(has_either_logged("lacks a right"));
	cr_expect_null(strstr(redisd_command(redis, "INFO errorstats"), "NOPERM"));
	fleet_end(&fleet);
}

static void must_name(const char *missing, const char *named)
{
	start(missing);
	work();
	await(has_either_logged("lacks a right"), SOON_MS, "%s is not missed", missing);
	await(has_either_logged(named), SOON_MS, "%s is not named", missing);
	fleet_must_be_whole(&fleet, SOON_MS);
	cr_expect_not(has_either_logged(PASSWORD));
}

static bool is_either(const char *state)
{
	return listener_page_has(fleet.listeners[0], "/readyz", state) ||
	       listener_page_has(fleet.listeners[1], "/readyz", state);
}

static struct run ask_status(void)
{
	return run_on(fleet.rows, "status --redis redis://127.0.0.1:%d/0", redisd_port(redis));
}

/* Nothing else shows that the listeners do not hear of each other: all events are stored. */
static void must_be_told_until_granted(const char *missing)
{
	await(is_either("degraded: redis does not take every command"), SOON_MS, "%s", missing);
	await(strstr(ask_status().output, ": redis does not take every command"), SOON_MS, "%s", ask_status().output);
	struct run run = ask_status();
	cr_expect_eq(run.status, 1, "%s", run.output);
	cr_expect_null(strstr(run.output, "gone"), "%s", run.output);
	free(redisd_command(redis, "ACL SETUSER fleet +%s", missing));
	await(!is_either("degraded"), SOON_MS, "%s", missing);
}

Test(redis_rights, one_less_is_named_and_nothing_is_lost_set)
{
	must_name("set", "missing=set ");
	fleet_end(&fleet);
}

Test(redis_rights, one_less_is_named_and_nothing_is_lost_publish)
{
	must_name("publish", "missing=publish ");
	must_be_told_until_granted("publish");
	fleet_end(&fleet);
}

Test(redis_rights, one_less_is_named_and_nothing_is_lost_subscribe)
{
	must_name("subscribe", "missing=subscribe ");
	must_be_told_until_granted("subscribe");
	fleet_end(&fleet);
}

Test(redis_rights, one_less_is_named_and_nothing_is_lost_expire)
{
	must_name("expire", "missing=expire ");
	fleet_end(&fleet);
}

Test(redis_rights, one_less_is_named_and_nothing_is_lost_hset)
{
	must_name("hset", "missing=hset ");
	must_be_told_until_granted("hset");
	fleet_end(&fleet);
}

Test(redis_rights, one_less_is_named_and_nothing_is_lost_hgetall)
{
	must_name("hgetall", "missing=hgetall ");
	must_be_told_until_granted("hgetall");
	fleet_end(&fleet);
}
