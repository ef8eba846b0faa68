/* When hold.c hands an event out again. */
#include "event/hold.h"
#include "unit.h"

static struct hold hold;

static void init(void)
{
	hold_init(&hold);
}

TestSuite(hold, .init = init, .timeout = 60);

/* Runs the clock in steps of 1 ms until ev is handed out. */
static int64_t due_at(const struct event *ev, int64_t now_ms)
{
	for (int64_t end = now_ms + 200000; now_ms < end; now_ms++)
		if (hold_due(&hold, now_ms) == ev)
			return now_ms;
	return -1;
}

Test(hold, event_is_handed_out_at_its_moment_and_not_before)
{
	struct event ev = {0};

	hold_add(&hold, &ev, 1000, 0);
	cr_assert_null(hold_due(&hold, 1049));
	cr_assert_eq(hold_due(&hold, 1050), &ev);
	cr_assert_null(hold_due(&hold, 9999), "handed out twice");
}

Test(hold, each_step_doubles_the_delay)
{
	struct event ev = {0};

	for (unsigned int step = 0; step < HOLD_STEPS; step++) {
		hold_add(&hold, &ev, 1000, step);
		cr_assert_eq(due_at(&ev, 1000), 1000 + (50 << step), "step %u", step);
	}
}

Test(hold, step_past_the_last_counts_as_the_last)
{
	struct event ev = {0};

	hold_add(&hold, &ev, 0, HOLD_STEPS);
	cr_assert_eq(due_at(&ev, 0), 50 << 11);
	hold_add(&hold, &ev, 0, 1000000);
	cr_assert_eq(due_at(&ev, 0), 50 << 11);
	hold_add(&hold, &ev, 0, (unsigned int)-1);
	cr_assert_eq(due_at(&ev, 0), 50 << 11);
}

Test(hold, wait_is_the_time_until_the_first_is_due)
{
	struct event slow = {0}, fast = {0};

	cr_assert_null(hold_due(&hold, 1000));
	cr_assert_eq(hold_wait(&hold, 1000), -1);
	hold_add(&hold, &slow, 1000, 3);
	cr_assert_eq(hold_wait(&hold, 1000), 400);
	cr_assert_eq(hold_wait(&hold, 1100), 300);
	hold_add(&hold, &fast, 1100, 1);
	cr_assert_eq(hold_wait(&hold, 1100), 100);
	cr_assert_eq(hold_wait(&hold, 1199), 1);
	cr_assert_eq(hold_wait(&hold, 1200), 0);
	cr_assert_eq(hold_wait(&hold, 5000), 0);
	cr_assert_eq(hold_due(&hold, 1200), &fast);
	cr_assert_eq(hold_wait(&hold, 1200), 200);
}

Test(hold, events_of_one_delay_come_in_the_order_of_their_coming)
{
	struct event evs[3] = {0};

	for (int i = 0; i < 3; i++)
		hold_add(&hold, &evs[i], 1000 + i, 0);
	cr_assert_eq(hold_due(&hold, 1051), &evs[0]);
	cr_assert_eq(hold_due(&hold, 1051), &evs[1]);
	cr_assert_null(hold_due(&hold, 1051));
	cr_assert_eq(hold_due(&hold, 1052), &evs[2]);
}

Test(hold, removed_event_is_not_handed_out)
{
	struct event evs[3] = {0};

	for (int i = 0; i < 3; i++)
		hold_add(&hold, &evs[i], 1000, 0);
	hold_remove(&evs[1]);
	hold_remove(&evs[1]);
	cr_assert_eq(hold_due(&hold, 2000), &evs[0]);
	cr_assert_eq(hold_due(&hold, 2000), &evs[2]);
	cr_assert_null(hold_due(&hold, 2000));
}

Test(hold, event_that_is_gone_may_have_been_the_one)
{
	struct event first = {0}, *gone = calloc(1, sizeof(*gone)), last = {0};

	hold_add(&hold, &first, 1000, 0);
	hold_add(&hold, gone, 1000, 0);
	hold_remove(gone);
	free(gone);
	cr_assert_eq(hold_due(&hold, 1050), &first);
	hold_add(&hold, &last, 1050, 0);
	cr_assert_eq(hold_due(&hold, 1100), &last);
}
