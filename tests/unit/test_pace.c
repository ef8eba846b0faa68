/* When rows wait for others, and when they do not. */
#include "store/pace.h"
#include "unit.h"

static struct pace pace;

static void init(void)
{
	pace = (struct pace){.sent_ms = 0};
}

TestSuite(pace, .init = init, .timeout = 60);

Test(pace, rows_wait_until_the_pause_after_many_is_over)
{
	cr_assert_eq(pace_wait(&pace, 20, 1), 0, "there was no statement");
	pace_sent(&pace, 16, 100000);
	cr_assert_eq(pace_wait(&pace, 20, 100000), 3);
	cr_assert_eq(pace_wait(&pace, 1, 100002), 1);
	cr_assert_eq(pace_wait(&pace, 1, 100003), 0);
}

Test(pace, there_is_no_pause_after_few_rows_nor_for_very_many)
{
	pace_sent(&pace, 15, 100000);
	cr_assert_eq(pace_wait(&pace, 20, 100000), 0);
	pace_sent(&pace, 16, 100000);
	cr_assert_eq(pace_wait(&pace, 255, 100000), 3);
	cr_assert_eq(pace_wait(&pace, 256, 100000), 0);
}

Test(pace, there_is_no_pause_while_senders_wait)
{
	pace_await(&pace, 100000);
	pace_sent(&pace, 100, 100001);
	cr_assert_eq(pace_wait(&pace, 20, 100001), 0);
	pace_sent(&pace, 100, 100999);
	cr_assert_eq(pace_wait(&pace, 20, 100999), 0);
	pace_sent(&pace, 100, 101000);
	cr_assert_eq(pace_wait(&pace, 20, 101000), 3, "the last one came a second ago");
}
