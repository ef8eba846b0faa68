/* The lease of an exclusive source in fleet/lease.c, if Redis is slow. */
#include "clock.h"
#include "fleet/lease.h"
#include "loop.h"
#include "played_redis.h"
#include "unit.h"

#include <uv.h>

#define STEP_MS 50
#define ASKED   64 /* more requests than can wait for an answer */

static uv_loop_t loop;
static struct lease *lease;
static int acquired, lost, asked;

static void on_acquired(void *arg)
{
	acquired++;
}

static void on_lost(void *arg)
{
	lost++;
}

/* For so long, requests are answered late_ms later, or once those before them are. */
static void answer_late(int late_ms, int for_ms)
{
	const struct redis_reply granted = {.type = REPLY_INTEGER, .integer = 1};
	static int due[ASKED], first, last, ms;

	for (int end = ms + for_ms; ms < end; ms += STEP_MS) {
		for (; first < last && due[first % ASKED] <= ms; first++)
			played_redis_answer(&granted);
		clock_pass(STEP_MS);
		uv_run(&loop, UV_RUN_NOWAIT);
		for (; *played_redis_next(); asked++)
			due[last++ % ASKED] = ms + late_ms;
	}
}

static void set_up(void)
{
	static const struct config config = {
		.redis = "redis://h", .redis_timeout_ms = 2000, .claim_prefix = "p:", .instance_id = "me"};
	static const struct lease_owner owner = {.on_acquired = on_acquired, .on_lost = on_lost};

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

/* Each time, the feed is dialled. */
Test(lease, is_taken_less_and_less_often_if_redis_is_too_slow_to_keep_it)
{
	answer_late(850, 60000);
	cr_assert_gt(acquired, 1);
	cr_assert_leq(acquired, 30, "%d times", acquired);
	answer_late(100, 100000);
	acquired = 0;
	for (int i = 0; i < 20; i++) {
		answer_late(950, 300);
		answer_late(0, 12000);
	}
	cr_assert_eq(acquired, 20);
	acquired = 0;
	answer_late(950, 300);
	answer_late(100, 1000);
	cr_assert_eq(acquired, 1, "it was kept for long enough");
}

/* Each request takes it in Redis, so nobody else could have it. */
Test(lease, is_left_to_others_if_all_answers_are_too_late)
{
	answer_late(950, 60000);
	cr_assert_eq(acquired, 0);
	cr_assert_lt(asked, 60);
}

Test(lease, is_kept_after_redis_stood_still)
{
	answer_late(0, 2000);
	answer_late(950, 300);
	answer_late(0, 10000);
	cr_assert_eq(acquired, 2);
	cr_assert_eq(lost, 1, "%d times", lost);
}
