/* When a producer is paused, and when it is disconnected. */
#include "intake/producer_credit.h"
#include "unit.h"

static struct producer_credit credit;

TestSuite(producer_credit, .timeout = 60);

static void take(int n, bool is_event)
{
	for (int i = 0; i < n; i++)
		cr_assert_eq(producer_credit_take(&credit, !is_event, 0), PRODUCER_GO_ON, "%d", i);
}

Test(producer_credit, a_thousand_messages_that_are_no_events_are_a_reason_to_rest)
{
	take(PRODUCER_CREDIT - 1, false);
	cr_assert(producer_credit_allows(&credit, 1000000));
	cr_assert_eq(producer_credit_take(&credit, 1, 0), PRODUCER_PAUSE);
	cr_assert(!producer_credit_allows(&credit, 0));
}

Test(producer_credit, who_sends_more_events_than_others_never_rests)
{
	for (int i = 0; i < 10000; i++) {
		take(1, false);
		take(1, true);
	}
	cr_assert(producer_credit_allows(&credit, 1000000));
}

Test(producer_credit, what_is_unanswered_may_be_events)
{
	for (int i = 0; i < 1500; i++)
		cr_assert_eq(producer_credit_take(&credit, 1, 501), PRODUCER_GO_ON);
	cr_assert_eq(producer_credit_take(&credit, 1, 0), PRODUCER_PAUSE);
}

Test(producer_credit, what_is_answered_during_a_rest_does_not_count)
{
	take(PRODUCER_CREDIT - 1, false);
	cr_assert_eq(producer_credit_take(&credit, 1, 0), PRODUCER_PAUSE);
	take(10000, false);
	producer_credit_resume(&credit);
	cr_assert(producer_credit_allows(&credit, PRODUCER_CREDIT_AGAIN - 1));
	cr_assert(!producer_credit_allows(&credit, PRODUCER_CREDIT_AGAIN));
	take(PRODUCER_CREDIT_AGAIN - 1, false);
	cr_assert_eq(producer_credit_take(&credit, 1, 0), PRODUCER_PAUSE);
}

static enum producer_credit_verdict spend_all(void)
{
	enum producer_credit_verdict verdict = PRODUCER_GO_ON;

	while (verdict == PRODUCER_GO_ON)
		verdict = producer_credit_take(&credit, 1, 0);
	producer_credit_resume(&credit);
	return verdict;
}

Test(producer_credit, the_fifth_rest_is_the_end)
{
	for (int i = 1; i < PRODUCER_CREDIT_PAUSES; i++)
		cr_assert_eq(spend_all(), PRODUCER_PAUSE);
	cr_assert_eq(spend_all(), PRODUCER_END);
}

Test(producer_credit, who_has_no_credit_left_and_is_owed_nothing_may_go_on)
{
	cr_assert_eq(spend_all(), PRODUCER_PAUSE);
	for (int i = 0; i < 500; i++)
		cr_assert_eq(producer_credit_take(&credit, 1, 1000), PRODUCER_GO_ON);
	cr_assert(!producer_credit_allows(&credit, 1));
	cr_assert(producer_credit_allows(&credit, 0));
}

Test(producer_credit, enough_events_make_it_good_again)
{
	for (int i = 1; i < PRODUCER_CREDIT_PAUSES; i++)
		cr_assert_eq(spend_all(), PRODUCER_PAUSE);
	take(PRODUCER_CREDIT, true);
	cr_assert(producer_credit_allows(&credit, 1000000));
	cr_assert_eq(spend_all(), PRODUCER_PAUSE);
}

Test(producer_credit, events_are_remembered_for_a_while)
{
	take(100000, true);
	take(PRODUCER_CREDIT_SAVED + PRODUCER_CREDIT - 1, false);
	cr_assert_eq(producer_credit_take(&credit, 1, 0), PRODUCER_PAUSE);
}

Test(producer_credit, large_messages_cost_what_is_kept_of_them)
{
	int n = 0;

	cr_assert_eq(producer_credit_cost(0), 1);
	cr_assert_eq(producer_credit_cost(1000), 1);
	cr_assert_eq(producer_credit_cost(5000), 5);
	cr_assert_eq(producer_credit_cost(65536), 65);
	cr_assert_eq(producer_credit_cost(1 << 30), 65);
	for (enum producer_credit_verdict verdict = PRODUCER_GO_ON; verdict != PRODUCER_END; n++) {
		verdict = producer_credit_take(&credit, producer_credit_cost(1 << 20), 0);
		producer_credit_resume(&credit);
	}
	cr_assert_leq(n, 30, "%d", n);
}

Test(producer_credit, a_debt_grows_with_garbage_and_time_and_events_pay_it_off)
{
	int64_t debt_ms = 0;

	for (int i = 0; i < PRODUCER_CREDIT; i++)
		producer_debt_note(&debt_ms, 1, 1000);
	cr_assert(!producer_debt_is_over(debt_ms, 1, 1000));
	producer_debt_note(&debt_ms, 1, 1000);
	cr_assert(producer_debt_is_over(debt_ms, 1, 1000) && !producer_debt_is_over(debt_ms, 2, 1000));
	producer_debt_note(&debt_ms, 0, 1000);
	cr_assert(!producer_debt_is_over(debt_ms, 1, 1000));
	producer_debt_note(&debt_ms, PRODUCER_CREDIT + 1, 1000);
	cr_assert(producer_debt_is_over(debt_ms, 2, 1000) && !producer_debt_is_over(debt_ms, 1, 7000));
}
