/* test_turns.c: whose turn it is, and when Postgres is asked and given something, for fleets of any size. */
#include "road/turns.h"
#include "unit.h"

static struct turns turns;
static struct event ev;

static void init(void)
{
	turns_init(&turns);
	ev = (struct event){.held_ms = 0};
}

TestSuite(turns, .init = init, .timeout = 60);

Test(turns, nothing_is_asked_for_until_a_turn_has_come)
{
	cr_assert_eq(turns_ask_wait(&turns, 2, false, 100000), -1);
	turns_add(&turns, &ev, 100000);
	cr_assert_eq(turns_ask_wait(&turns, 2, false, 100000), 0);
	turns_asked(&turns, 100000);
	cr_assert_eq(turns_ask_wait(&turns, 2, false, 100500), -1, "there is no answer yet");
	cr_assert_eq(turns_answered(&turns), &ev);
	cr_assert_null(turns_answered(&turns));
}

Test(turns, an_answer_says_nothing_of_turns_that_came_after_the_question)
{
	turns_asked(&turns, 100000);
	turns_add(&turns, &ev, 100001);
	cr_assert_null(turns_answered(&turns));
	cr_assert_eq(turns_ask_wait(&turns, 2, false, 100001), 199);
}

Test(turns, questions_are_as_many_for_each_size_of_a_fleet_until_they_are_a_second_apart)
{
	turns_add(&turns, &ev, 100000);
	turns.asked_ms = 100000;
	cr_assert_eq(turns_ask_wait(&turns, 0, false, 100000), 200);
	cr_assert_eq(turns_ask_wait(&turns, 9, false, 100000), 200);
	cr_assert_eq(turns_ask_wait(&turns, 19, false, 100000), 400);
	cr_assert_eq(turns_ask_wait(&turns, 99, false, 100000), 1000);
}

Test(turns, where_many_events_wait_questions_come_sooner_whether_a_turn_has_come_or_not)
{
	turns.asked_ms = 100000;
	cr_assert_eq(turns_ask_wait(&turns, 99, true, 100000), 100);
	cr_assert_eq(turns_ask_wait(&turns, 99, true, 100100), 0);
	turns_asked(&turns, 100100);
	cr_assert_eq(turns_ask_wait(&turns, 99, true, 100300), -1, "there is no answer yet");
}

Test(turns, batches_are_as_many_for_each_size_of_a_fleet_until_they_are_a_tenth_of_a_second_apart)
{
	turns.stored_ms = 100000;
	cr_assert_eq(turns_store_wait(&turns, 0, 100000), 0);
	cr_assert_eq(turns_store_wait(&turns, 2, 100000), 5);
	cr_assert_eq(turns_store_wait(&turns, 2, 100005), 0);
	cr_assert_eq(turns_store_wait(&turns, 19, 100000), 47);
	cr_assert_eq(turns_store_wait(&turns, 200, 100000), 100);
}

/* 3.2 s is step 6. */
Test(turns, who_comes_second_waits_longer_where_rows_come_late)
{
	cr_assert_eq(turns_step(&turns, 1), 2);
	cr_assert_eq(turns_step(&turns, 2), 3);
	cr_assert_eq(turns_step(&turns, 3), 6);
	turns_asked(&turns, 100000);
	turns_saw(&turns, 99900);
	cr_assert_eq(turns_step(&turns, 1), 2, "it came since the question before");
	turns_asked(&turns, 100200);
	turns_saw(&turns, 99800);
	turns_saw(&turns, 99900);
	cr_assert_eq(turns.late_ms, 200);
	cr_assert_eq(turns_step(&turns, 1), 4);
	cr_assert_eq(turns_step(&turns, 2), 4);
	turns.late_ms = 100000;
	cr_assert_eq(turns_step(&turns, 1), 6);
	for (int i = 0; i < 100; i++)
		turns_asked(&turns, 200000);
	cr_assert_eq(turns_step(&turns, 1), 2, "that is forgotten");
}
