/* A listener that has rows and stores none is stalled until one is stored. */
#include "unit.h"
#include "store/stall.h"

static int64_t now_ms;

/* Checks every 100 ms. Returns the result of the last check. */
static bool pass(struct stall *s, bool has_rows, int64_t ms)
{
	bool is_stalled = s->is_stalled;

	for (; ms > 0; ms -= 100)
		is_stalled = stall_check(s, has_rows, false, now_ms += 100);
	return is_stalled;
}

static struct stall begin(void)
{
	struct stall s = {0};

	now_ms = 1000000;
	stall_check(&s, false, false, now_ms);
	return s;
}

Test(stall, a_second_with_rows_and_none_stored_is_a_stall)
{
	struct stall s = begin();

	cr_assert_not(pass(&s, true, 900));
	cr_assert(pass(&s, true, 100));
	cr_assert(pass(&s, false, 100000));
	stall_stored(&s);
	cr_assert_not(pass(&s, true, 900));
}

Test(stall, who_has_nothing_to_store_does_not_stall)
{
	struct stall s = begin();

	cr_assert_not(pass(&s, false, 100000));
	cr_assert_not(pass(&s, true, 900));
	cr_assert_not(pass(&s, false, 100));
	cr_assert_not(pass(&s, true, 900));
}

Test(stall, statement_without_rows_is_a_stall_until_it_is_answered)
{
	struct stall s = begin();

	for (int i = 0; i < 19; i++)
		cr_assert_not(stall_check(&s, false, true, now_ms += 100));
	cr_assert(stall_check(&s, false, true, now_ms += 100));
	cr_assert_not(pass(&s, false, 100));
	for (int i = 0; i < 20; i++)
		stall_check(&s, false, true, now_ms += 100);
	cr_assert(pass(&s, true, 100));
	cr_assert(pass(&s, false, 100000), "rows came");
}

Test(stall, row_that_was_put_off_is_still_to_be_stored)
{
	struct stall s = begin();

	stall_failed(&s);
	cr_assert_not(pass(&s, false, 900));
	cr_assert(pass(&s, false, 100));
	stall_stored(&s);
	cr_assert_not(pass(&s, false, 100000));
}

Test(stall, row_that_is_blocked_says_nothing_of_others)
{
	struct stall s = begin();

	pass(&s, true, 900);
	stall_blocked(&s);
	cr_assert_not(pass(&s, false, 100000));
	pass(&s, true, 900);
	stall_blocked(&s);
	cr_assert_not(pass(&s, false, 100000));
}

Test(stall, rows_that_are_all_blocked_are_a_stall)
{
	struct stall s = begin();

	for (int i = 0; i < STALL_BLOCKED; i++)
		stall_blocked(&s);
	cr_assert(pass(&s, false, 1000));
	stall_stored(&s);
	stall_blocked(&s);
	cr_assert_not(pass(&s, false, 100000));
}

Test(stall, time_in_which_the_process_was_stopped_does_not_count)
{
	struct stall s = begin();

	cr_assert_not(stall_check(&s, true, false, now_ms += 60000));
	cr_assert_not(pass(&s, true, 400));
	cr_assert(pass(&s, true, 100));
}

Test(stall, slow_batches_are_waited_for_longer)
{
	struct stall s = begin();

	pass(&s, true, 900);
	stall_took(&s, 900);
	stall_stored(&s);
	cr_assert_not(pass(&s, true, 2700));
	cr_assert(pass(&s, true, 100));
}

Test(stall, no_batch_is_waited_for_longer_than_five_seconds)
{
	struct stall s = begin();

	pass(&s, true, 60000);
	stall_took(&s, 60000);
	stall_stored(&s);
	cr_assert_not(pass(&s, true, 4900));
	cr_assert(pass(&s, true, 100));
}
