/* The lease of an exclusive source in fleet/lease.c, if Redis is slow. */
#include "clock.h"
#include "fleet/lease.h"
#include "loop.h"
#include "played_redis.h"
#include "unit.h"

#include <uv.h>

#define STEP_MS 50

static uv_loop_t loop;
static struct lease *lease;
static int acquired, lost;
static const char *useless;

static void on_acquired(void *arg)
{
	acquired++;
}

static void on_lost(void *arg)
{
	lost++;
}

static const char *why_useless(void *arg)
{
	return useless;
}

/* For so long, requests are answered late_ms later. */
static void answer_late(int late_ms, int for_ms)
{
	const struct redis_reply granted = {.type = REPLY_INTEGER, .integer = 1};
	static int ms, due;
	static bool is_asked;

	for (int end = ms + for_ms; ms < end; ms += STEP_MS) {
		if (is_asked && due <= ms) {
			is_asked = false;
			played_redis_answer(&granted);
		}
		clock_pass(STEP_MS);
		uv_run(&loop, UV_RUN_NOWAIT);
		if (*played_redis_next()) {
			is_asked = true;
			due = ms + late_ms;
		}
	}
}

static void set_up(void)
{
	static const struct config config = {
		.redis = "redis://h", .redis_timeout_ms = 2000, .claim_prefix = "p:", .instance_id = "me"};
	static const struct lease_owner owner = {
		.on_acquired = on_acquired, .on_lost = on_lost, .why_useless = why_useless};

	clock_stop();
	uv_loop_init(&loop);
	played_redis_start();
	lease = lease_open(&loop, &config, "alone", &owner);
	played_redis_set_state(REDIS_READY);
}

static void tear_down(void)
{
	played_redis_set_state(REDIS_DOWN);
	lease_close(lease, loop_on_closed, NULL);
	loop_end(&loop);
}

TestSuite(lease, .init = set_up, .fini = tear_down, .timeout = 30);

Test(lease, is_kept_while_redis_is_slow)
{
	answer_late(600, 10000);
	cr_assert_eq(acquired, 1);
	cr_assert_eq(lost, 0, "%d times", lost);
}

Test(lease, is_kept_while_redis_is_so_slow_that_it_would_have_ended)
{
	answer_late(950, 30000);
	cr_assert_eq(acquired, 1);
	cr_assert_eq(lost, 0, "%d times", lost);
}

Test(lease, is_lost_once_if_redis_stands_still_again_and_again)
{
	answer_late(0, 2000);
	for (int i = 0; i < 20; i++) {
		answer_late(950, 300);
		answer_late(0, 5000);
	}
	cr_assert_eq(acquired, 2);
	cr_assert_eq(lost, 1, "%d times", lost);
}

Test(lease, is_kept_after_redis_stood_still)
{
	answer_late(0, 2000);
	answer_late(950, 300);
	answer_late(0, 10000);
	cr_assert_eq(acquired, 2);
	cr_assert_eq(lost, 1, "%d times", lost);
}

/* Redis may have restarted without its data, so that another listener can take the lease at once. */
Test(lease, of_a_slow_redis_is_lost_soon_after_the_connection)
{
	answer_late(900, 20000);
	cr_assert_eq(lost, 0);
	played_redis_set_state(REDIS_DOWN);
	answer_late(0, 1200);
	cr_assert_eq(lost, 1);
}

/* A cluster answers so once when a slot has moved. */
Test(lease, is_not_refused_by_one_error)
{
	const struct redis_reply moved = {.type = REPLY_ERROR, .str = (char *)"MOVED 1 127.0.0.1:2", .len = 19};

	for (int i = 0; i < 2; i++) {
		cr_assert_null(lease_refusal(lease));
		while (!*played_redis_next()) {
			clock_pass(STEP_MS);
			uv_run(&loop, UV_RUN_NOWAIT);
		}
		played_redis_answer(&moved);
	}
	cr_assert_not_null(lease_refusal(lease));
}

/* Another listener can use it, and should get it first if it is free. */
Test(lease, one_that_would_be_useless_is_asked_for_less_often)
{
	const struct redis_reply of_another = {.type = REPLY_INTEGER};
	int asked = 0;

	useless = "no way";
	for (int ms = 0; ms < 20000; ms += STEP_MS) {
		clock_pass(STEP_MS);
		uv_run(&loop, UV_RUN_NOWAIT);
		if (*played_redis_next()) {
			asked++;
			played_redis_answer(&of_another);
		}
	}
	cr_assert_leq(asked, 20, "%d times", asked);
	cr_assert_geq(asked, 6, "%d times", asked);
}
