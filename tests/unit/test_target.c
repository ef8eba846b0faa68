/* What an answer means for a delivery, and when a failing target is paused. */
#include "outbox/target.h"

#include "unit.h"

static struct webhook webhook = {
	.name = (char *)"shop", .concurrency = 8, .attempts = 10, .backoff_ms = 100, .backoff_cap_ms = 5000};
static struct target target, retries;
static int64_t wait_ms;

static void init(void)
{
	target = (struct target){.webhook = &webhook, .other = &retries};
	retries = (struct target){.webhook = &webhook, .other = &target, .is_retry = true};
}

TestSuite(target, .init = init, .timeout = 60);

static enum target_outcome take_attempt(int status, int attempt, int64_t retry_after_ms, int64_t now_ms)
{
	const struct target_answer answer = {status, retry_after_ms, "a reason", false};

	target_hear(&target, &answer, target.state == TARGET_PROBING, now_ms, 0);
	return target_take(&target, &answer, 1, attempt, 0, &wait_ms);
}

static void answer_to(struct target *t, int status)
{
	const struct target_answer answer = {status, 0, "a reason", false};

	target_hear(t, &answer, t->state == TARGET_PROBING, 0, 0);
}

static enum target_outcome take(int status)
{
	return take_attempt(status, 1, 0, 0);
}

/* --- answers --- */

Test(target, success_is_delivered_trouble_is_retried_refusal_is_dead)
{
	static const int good[] = {200, 201, 202, 204, 299};
	static const int trouble[] = {0,   301, 302, 307, 308, 401, 403, 404, 405, 408,
				      409, 413, 425, 429, 499, 500, 502, 503, 504, 599};
	static const int refusals[] = {400, 422};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert_eq(take(good[i]), TARGET_DELIVERED, "%d", good[i]);
	for (size_t i = 0; i < sizeof(trouble) / sizeof(*trouble); i++)
		cr_assert_eq(take(trouble[i]), TARGET_RETRY, "%d", trouble[i]);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
		cr_assert_eq(take(refusals[i]), TARGET_DEAD, "%d", refusals[i]);
}

/* The row is given back without an attempt, even the last one. */
Test(target, gone_pauses_it_at_once)
{
	cr_assert_eq(take_attempt(410, 10, 0, 0), TARGET_GONE);
	cr_assert_eq(target.state, TARGET_PAUSED);
	cr_assert_eq(target.resume_ms, TARGET_PAUSE_MS);
	cr_assert_eq(take_attempt(410, 10, 0, 0), TARGET_GONE, "of requests that were in progress");
	cr_assert_eq(target.resume_ms, TARGET_PAUSE_MS);
	cr_assert_eq(target_want(&target, TARGET_PAUSE_MS), 1);
	cr_assert_eq(take(204), TARGET_DELIVERED);
	cr_assert_eq(target.state, TARGET_OPEN);
}

Test(target, last_attempt_is_dead_unless_it_is_delivered)
{
	cr_assert_eq(take_attempt(500, 9, 0, 0), TARGET_RETRY);
	cr_assert_eq(take_attempt(500, 10, 0, 0), TARGET_DEAD);
	cr_assert_eq(take_attempt(0, 11, 0, 0), TARGET_DEAD);
	cr_assert_eq(take_attempt(200, 10, 0, 0), TARGET_DELIVERED);
}

Test(target, wait_is_drawn_from_twice_the_range_after_each_attempt_up_to_the_cap)
{
	static const int64_t most[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000};
	const struct target_answer answer = {500, 0, NULL, false};

	for (int i = 0; i < 9; i++) {
		target_take(&target, &answer, 1, i + 1, (uint32_t)most[i] - 1, &wait_ms);
		cr_assert_eq(wait_ms, most[i]);
		target_take(&target, &answer, 1, i + 1, (uint32_t)most[i], &wait_ms);
		cr_assert_eq(wait_ms, 1);
	}
}

Test(target, wait_is_no_shorter_than_asked_for)
{
	take_attempt(429, 1, 7000, 0);
	cr_assert_eq(wait_ms, 7000);
}

/* --- pauses --- */

static void refuse_often(int n)
{
	for (int i = 0; i < n; i++)
		take(500);
}

static void fail_often(int n, int64_t now_ms)
{
	for (int i = 0; i < n; i++)
		take_attempt(503, 1, 0, now_ms);
}

Test(target, five_failures_in_a_row_pause_it)
{
	fail_often(4, 0);
	cr_assert_eq(target_want(&target, 0), 8);
	take(200);
	fail_often(4, 0);
	cr_assert_eq(target.state, TARGET_OPEN);
	fail_often(1, 0);
	cr_assert_eq(target.state, TARGET_PAUSED);
	cr_assert_eq(target_want(&target, 999), 0);
}

Test(target, refusals_pause_it_too)
{
	for (int i = 0; i < 5; i++)
		take(i % 2 ? 422 : 400);
	cr_assert_eq(target.state, TARGET_PAUSED);
	cr_assert_eq(target_want(&target, 1000), 1);
	cr_assert_eq(take(400), TARGET_DEAD);
	cr_assert_eq(target.resume_ms, 2000);
}

Test(target, last_attempts_pause_it_too)
{
	for (int i = 0; i < 5; i++)
		take_attempt(500, 10, 0, 0);
	cr_assert_eq(target.state, TARGET_PAUSED);
}

Test(target, after_a_pause_one_request_at_a_time_is_a_probe)
{
	fail_often(5, 0);
	cr_assert_eq(target_want(&target, 1000), 1);
	cr_assert_eq(target.state, TARGET_PROBING);
	cr_assert(target_begin(&target, 1));

	cr_assert_eq(target_want(&target, 1001), 0);
	target_end(&target, 1, true);
	take(200);
	cr_assert_eq(target.state, TARGET_OPEN);
	cr_assert_eq(target_want(&target, 1002), 8);
}

Test(target, pauses_grow_to_a_minute_or_four_seconds_and_begin_anew_after_a_success)
{
	static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
	int64_t now = 0;

	fail_often(4, now);
	for (size_t i = 0; i < 8; i++) {
		take_attempt(i % 2 ? 422 : 400, 1, 0, now);
		cr_assert_eq(target.resume_ms - now, pauses[i]);
		cr_assert_eq(target_want(&target, target.resume_ms - 1), 0);
		now = target.resume_ms;
		cr_assert_eq(target_want(&target, now), 1);
	}
	take(200);
	fail_often(5, now);
	for (size_t i = 0; i < 8; i++) { /* rows behind those that fail must not wait for long */
		cr_assert_eq(target.resume_ms - now, pauses[i < 2 ? i : 2]);
		now = target.resume_ms;
		cr_assert_eq(target_want(&target, now), 1);
		fail_often(1, now);
	}
}

Test(target, requests_that_were_at_work_when_it_was_paused_do_not_prolong_the_pause)
{
	fail_often(5, 0);
	fail_often(7, 500);
	cr_assert_eq(target.resume_ms, 1000);
	take(200);
	cr_assert_eq(target.state, TARGET_OPEN);
}

Test(target, pause_is_no_shorter_than_asked_for)
{
	fail_often(4, 0);
	take_attempt(429, 1, 30000, 0);
	cr_assert_eq(target_want(&target, 29999), 0);
	cr_assert_eq(target_want(&target, 30000), 1);
}

Test(target, probes_take_the_newest_row_and_the_oldest_in_turn)
{
	int64_t now = 0;

	for (int round = 0; round < 2; round++) {
		fail_often(5, now);
		for (int i = 0; i < 4; i++) {
			cr_assert_eq(target_want(&target, now = target.resume_ms), 1);
			cr_assert_eq(target.is_newest, i % 2 == 0);
			fail_often(1, now);
		}
		take(200);
		cr_assert_not(target.is_newest);
	}
}

/* Its answers show that the receiver is up. */
Test(target, which_accepts_some_rows_is_not_paused_for_the_others)
{
	for (int i = 0; i < 20; i++)
		take(200);
	for (int i = 0; i < 20; i++) {
		refuse_often(9);
		cr_assert_eq(target.state, TARGET_OPEN);
		cr_assert_eq(target_failing(&target), &target);
		take(200);
	}
	refuse_often(54);
	cr_assert_eq(target.state, TARGET_OPEN);
	refuse_often(1);
	cr_assert_eq(target.state, TARGET_PAUSED);
}

Test(target, which_is_down_or_busy_is_paused_whatever_it_accepted)
{
	static const int statuses[] = {0, 429, 502, 503, 504};

	for (size_t s = 0; s < sizeof(statuses) / sizeof(*statuses); s++) {
		for (int i = 0; i < 20; i++)
			take(200);
		for (int i = 0; i < 5; i++)
			take(statuses[s]);
		cr_assert_eq(target.state, TARGET_PAUSED, "%d", statuses[s]);
	}
	take(200);
	for (int i = 0; i < 5; i++)
		take_attempt(500, 1, 1000, 0);
	cr_assert_eq(target.state, TARGET_PAUSED, "it asked for it");
}

Test(target, failing_and_working_in_turn_is_one_spell)
{
	for (int now = 0; now < 100000; now += 5000) {
		fail_often(60, now);
		cr_assert_eq(target.state, TARGET_PAUSED);
		take(200);
		target_want(&target, now);
		cr_assert_eq(target_failing(&target)->spell.began_ms, 0);
	}
	target_want(&target, 104999);
	cr_assert_not_null(target_failing(&target));
	target_want(&target, 105000);
	cr_assert_null(target_failing(&target));
}

/* Its rows may be dead, or other listeners may have delivered them. */
Test(target, fails_no_longer_when_nothing_is_left_to_probe_it_with)
{
	fail_often(5, 0);
	target_want(&target, 1000);
	target_begin(&target, 1);
	target_want(&target, 700000);
	cr_assert_not_null(target_failing(&target), "the probe hangs");
	target_end(&target, 1, true);
	take_attempt(500, 1, 0, 700000);
	target_want(&target, 1300000);
	cr_assert_not_null(target_failing(&target));
	target_want(&target, target.resume_ms + TARGET_IDLE_MS);
	cr_assert_null(target_failing(&target));
	take_attempt(500, 1, 0, 1400000);
	cr_assert_eq(target_failing(&target)->spell.began_ms, 1400000);
	retries.spell = (struct log_spell){.times = 1, .began_ms = 1000};
	cr_assert_eq(target_failing(&target), &retries, "since then");
}

/* --- lanes --- */

Test(target, rows_that_fail_again_pause_retries_alone)
{
	for (int i = 0; i < 5; i++)
		answer_to(&retries, 500);
	cr_assert_eq(retries.state, TARGET_PAUSED);
	cr_assert_eq(target.state, TARGET_OPEN);
	cr_assert_eq(target_want(&target, 0), 8);
	cr_assert_eq(target_want(&retries, 999), 0);
	cr_assert_eq(target_failing(&target), &retries);
	answer_to(&retries, 500);
	cr_assert_eq(retries.resume_ms, 1000, "it was at work when the pause began");
	cr_assert_eq(target_want(&retries, 1000), 1);
	answer_to(&retries, 500);
	cr_assert_eq(retries.state, TARGET_PAUSED);
}

Test(target, success_in_either_lane_opens_both)
{
	for (int first = 0; first < 2; first++) {
		fail_often(5, 0);
		for (int i = 0; i < 5; i++)
			answer_to(&retries, 500);
		cr_assert(target.state == TARGET_PAUSED && retries.state == TARGET_PAUSED);
		answer_to(first ? &target : &retries, 200);
		cr_assert(target.state == TARGET_OPEN && retries.state == TARGET_OPEN);
		cr_assert(!target.failures && !retries.failures);
		init();
	}
}

static void begin(struct target *t, int n)
{
	for (int i = 0; i < n; i++)
		target_begin(t, 1);
}

Test(target, retries_have_half_of_the_slots_and_new_rows_what_is_left)
{
	begin(&retries, 4);
	cr_assert_eq(target_free_slots(&retries), 0);
	cr_assert_eq(target_want(&retries, 0), 0);
	cr_assert_eq(target_free_slots(&target), 4);
	begin(&target, 4);
	cr_assert_eq(target_free_slots(&target), 0);
	target_end(&retries, 1, false);
	cr_assert_eq(target_free_slots(&target), 1);
	cr_assert_eq(target_free_slots(&retries), 1);
	begin(&target, 1);
	cr_assert_eq(target_free_slots(&retries), 0);
	cr_assert_eq(target_want(&retries, 0), 1, "to be sent when a slot is free");
}

Test(target, lanes_share_the_only_slot)
{
	struct webhook one = {.name = (char *)"shop", .concurrency = 1, .attempts = 10};

	target.webhook = retries.webhook = &one;
	cr_assert_eq(target_free_slots(&target), 1);
	cr_assert_eq(target_free_slots(&retries), 1);
	begin(&retries, 1);
	cr_assert_eq(target_free_slots(&target), 0);
}

Test(target, retries_are_not_leased_ahead)
{
	retries.depth = 256;
	cr_assert_eq(target_want(&retries, 0), 4);
}

/* --- batches --- */

Test(target, batch_is_a_tenth_after_each_failure)
{
	const struct webhook hundred = {.batch = 100}, eight = {.batch = 8}, none = {.batch = 0};

	cr_assert_eq(target_batch(&hundred, 1), 100);
	cr_assert_eq(target_batch(&hundred, 2), 10);
	cr_assert_eq(target_batch(&hundred, 3), 1);
	cr_assert_eq(target_batch(&hundred, 20), 1);
	cr_assert_eq(target_batch(&eight, 2), 1);
	cr_assert_eq(target_batch(&none, 1), 1);
}

Test(target, row_is_dead_only_by_an_answer_to_itself)
{
	const struct target_answer refuses = {422, 0, NULL, false}, fails = {500, 0, NULL, false};

	cr_assert_eq(target_take(&target, &refuses, 2, 1, 1, &wait_ms), TARGET_RETRY);
	cr_assert_eq(target_take(&target, &fails, 2, 10, 1, &wait_ms), TARGET_RETRY);
	cr_assert_gt(wait_ms, 0);
	cr_assert_eq(target_take(&target, &refuses, 1, 1, 1, &wait_ms), TARGET_DEAD);
	cr_assert_eq(target_take(&target, &fails, 1, 10, 1, &wait_ms), TARGET_DEAD);
}

Test(target, each_slot_has_a_batch_but_one_row_while_probing_or_if_bodies_are_large)
{
	struct webhook fifty = webhook;

	fifty.batch = 50;
	target.webhook = retries.webhook = &fifty;
	cr_assert_eq(target_want(&target, 0), 400);
	cr_assert_eq(target_want(&retries, 0), 20);
	target_begin(&target, 50);
	cr_assert_eq(target_want(&target, 0), 350);
	cr_assert_eq(target_free_slots(&target), 7);
	target.bytes = TARGET_AHEAD_BYTES;
	cr_assert_eq(target_want(&target, 0), 0);
	target_end(&target, 50, false);
	cr_assert_eq(target_want(&target, 0), 8);
	target.bytes = 0;
	fail_often(5, 0);
	cr_assert_eq(target_want(&target, 1000), 1);
}

/* --- probes --- */

Test(target, is_judged_by_its_probe_and_by_no_request_that_began_before)
{
	const struct target_answer fails = {500, 0, NULL, false}, succeeds = {200, 0, NULL, false};

	for (int i = 0; i < 16; i++)
		cr_assert(!target_begin(&target, 1));
	fail_often(5, 0);
	cr_assert_eq(target_want(&target, 1000), 1, "what hangs has no slot of the probe");
	cr_assert_eq(target_free_slots(&target), 1);
	cr_assert(target_begin(&target, 1));
	cr_assert_eq(target_free_slots(&target), 0);
	target_end(&target, 1, false);
	target_hear(&target, &fails, false, 1000, 0);
	cr_assert_eq(target.state, TARGET_PROBING);
	target_hear(&target, &succeeds, false, 1000, 0);
	cr_assert_eq(target.state, TARGET_PROBING);
	target_end(&target, 1, true);
	target_hear(&target, &succeeds, true, 1000, 0);
	cr_assert_eq(target.state, TARGET_OPEN);
	cr_assert_eq(target.at_work, 15);
}

Test(target, fault_on_this_side_costs_no_attempt_and_pauses)
{
	const struct target_answer fault = {0, 0, "too many open files", true};

	target_hear(&target, &fault, false, 0, 0);
	cr_assert_eq(target_take(&target, &fault, 1, 10, 0, &wait_ms), TARGET_UNSENT);
	cr_assert_gt(wait_ms, 0);
	cr_assert_eq(target.state, TARGET_PAUSED);
}

/* --- rows leased ahead --- */

/* Simulates relay.c: a round brings the wanted rows, requests begin, and some of them end. */
static size_t take_round(size_t rows, size_t bytes)
{
	target.waiting += rows;
	target_supply(&target, rows, bytes);
	size_t begun = target_free_slots(&target) < target.waiting ? target_free_slots(&target) : target.waiting;
	target.waiting -= begun;
	target.at_work += begun;
	target.rows += begun;
	return begun;
}

Test(target, is_leased_more_rows_at_once_while_it_is_faster_than_rounds)
{
	const size_t wanted[] = {8, 16, 32, 64, 128, 256, 256};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		cr_assert_eq(target_want(&target, 0), wanted[i], "%zu, not %zu", target.wanted, wanted[i]);
		take_round(wanted[i], wanted[i] * 100);
		target.at_work = target.rows = target.waiting = 0; /* all are answered before the next round */
	}
}

/* For example, because they have expired. */
Test(target, is_leased_more_rows_at_once_if_none_of_them_is_sent)
{
	cr_assert_eq(target_want(&target, 0), 8);
	target_supply(&target, 8, 800);
	cr_assert_eq(target_want(&target, 0), 16);
}

Test(target, is_leased_fewer_rows_when_they_wait)
{
	size_t depth;

	target.depth = 256;
	cr_assert_eq(target_want(&target, 0), 256);
	take_round(256, 25600);
	depth = target.depth;
	target.at_work = target.rows = 0;
	for (int i = 0; i < 20; i++)
		take_round(0, 0);
	cr_assert_lt(target.depth, depth);
	cr_assert_geq(target.depth, 8);
}

Test(target, large_bodies_are_not_leased_ahead)
{
	for (int i = 0; i < 10; i++) {
		size_t wanted = target_want(&target, 0);

		cr_assert_leq(wanted, 16);
		take_round(wanted, wanted * 1000000);
		target.at_work = target.rows = target.waiting = 0;
	}
	cr_assert_eq(target.depth, 8);
}

Test(target, that_is_slower_than_rounds_is_leased_nothing_ahead)
{
	take_round(target_want(&target, 0), 800);
	target.depth = 0; /* the first round found it idle */
	for (int i = 0; i < 20; i++) {
		target_end(&target, 1, false);
		cr_assert_eq(target_want(&target, 0), 1);
		take_round(1, 100);
	}
	cr_assert_eq(target.depth, 8);
}

Test(target, that_brings_less_than_is_wanted_is_not_starved)
{
	cr_assert_eq(target_want(&target, 0), 8);
	take_round(7, 700);
	target.at_work = target.rows = target.waiting = 0;
	cr_assert_eq(target_want(&target, 0), 8);
}

Test(target, that_is_paused_leases_nothing_ahead)
{
	target.depth = 256;
	target.state = TARGET_PAUSED;
	target.resume_ms = 1000;
	cr_assert_eq(target_want(&target, 0), 0);
	cr_assert_eq(target_want(&target, 1000), 1);
}
