/* When a producer has to rest, and when it has to go. */
#include "intake/patience.h"
#include "unit.h"

static struct patience patience;

TestSuite(patience, .timeout = 60);

static void take(int n, bool is_event)
{
	for (int i = 0; i < n; i++)
		cr_assert_eq(patience_take(&patience, !is_event, 0), PATIENCE_GO_ON, "%d", i);
}

Test(patience, a_thousand_messages_that_are_no_events_are_a_reason_to_rest)
{
	take(PATIENCE_CREDIT - 1, false);
	cr_assert(patience_allows(&patience, 1000000));
	cr_assert_eq(patience_take(&patience, 1, 0), PATIENCE_REST);
	cr_assert(!patience_allows(&patience, 0));
}

Test(patience, who_sends_more_events_than_others_never_rests)
{
	for (int i = 0; i < 10000; i++) {
		take(1, false);
		take(1, true);
	}
	cr_assert(patience_allows(&patience, 1000000));
}

Test(patience, what_is_unanswered_may_be_events)
{
	for (int i = 0; i < 1500; i++)
		cr_assert_eq(patience_take(&patience, 1, 501), PATIENCE_GO_ON);
	cr_assert_eq(patience_take(&patience, 1, 0), PATIENCE_REST);
}

Test(patience, what_is_answered_during_a_rest_does_not_count)
{
	take(PATIENCE_CREDIT - 1, false);
	cr_assert_eq(patience_take(&patience, 1, 0), PATIENCE_REST);
	take(10000, false);
	patience_rested(&patience);
	cr_assert(patience_allows(&patience, PATIENCE_AGAIN - 1));
	cr_assert(!patience_allows(&patience, PATIENCE_AGAIN));
	take(PATIENCE_AGAIN - 1, false);
	cr_assert_eq(patience_take(&patience, 1, 0), PATIENCE_REST);
}

static enum patience_verdict spend_all(void)
{
	enum patience_verdict verdict = PATIENCE_GO_ON;

	while (verdict == PATIENCE_GO_ON)
		verdict = patience_take(&patience, 1, 0);
	patience_rested(&patience);
	return verdict;
}

Test(patience, the_fifth_rest_is_the_end)
{
	for (int i = 1; i < PATIENCE_SPELLS; i++)
		cr_assert_eq(spend_all(), PATIENCE_REST);
	cr_assert_eq(spend_all(), PATIENCE_END);
}

Test(patience, who_has_no_credit_left_and_is_owed_nothing_may_go_on)
{
	cr_assert_eq(spend_all(), PATIENCE_REST);
	for (int i = 0; i < 500; i++)
		cr_assert_eq(patience_take(&patience, 1, 1000), PATIENCE_GO_ON);
	cr_assert(!patience_allows(&patience, 1));
	cr_assert(patience_allows(&patience, 0));
}

Test(patience, enough_events_make_it_good_again)
{
	for (int i = 1; i < PATIENCE_SPELLS; i++)
		cr_assert_eq(spend_all(), PATIENCE_REST);
	take(PATIENCE_CREDIT, true);
	cr_assert(patience_allows(&patience, 1000000));
	cr_assert_eq(spend_all(), PATIENCE_REST);
}

Test(patience, events_are_remembered_for_a_while)
{
	take(100000, true);
	take(PATIENCE_SAVED + PATIENCE_CREDIT - 1, false);
	cr_assert_eq(patience_take(&patience, 1, 0), PATIENCE_REST);
}

Test(patience, large_messages_cost_what_is_kept_of_them)
{
	int n = 0;

	cr_assert_eq(patience_cost(0), 1);
	cr_assert_eq(patience_cost(1000), 1);
	cr_assert_eq(patience_cost(5000), 5);
	cr_assert_eq(patience_cost(65536), 65);
	cr_assert_eq(patience_cost(1 << 30), 65);
	for (enum patience_verdict verdict = PATIENCE_GO_ON; verdict != PATIENCE_END; n++) {
		verdict = patience_take(&patience, patience_cost(1 << 20), 0);
		patience_rested(&patience);
	}
	cr_assert_leq(n, 30, "%d", n);
}
