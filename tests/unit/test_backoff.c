/* How long backoff.c waits. */
#include "base/backoff.h"
#include "unit.h"

/* Returns the upper bound of the next wait. */
static int64_t bound(const struct backoff *b)
{
	int64_t most = 0;

	for (uint32_t random = 0; random < 5000; random++) {
		struct backoff copy = *b;
		int64_t wait = backoff_next(&copy, random);

		cr_assert_geq(wait, 1);
		most = wait > most ? wait : most;
	}
	return most;
}

Test(backoff, bound_doubles_with_each_try_up_to_the_cap)
{
	static const int64_t bounds[] = {50, 100, 200, 400, 800, 1000, 1000, 1000};
	struct backoff b = {.base_ms = 50, .cap_ms = 1000};

	for (int i = 0; i < 8; i++) {
		cr_assert_eq(bound(&b), bounds[i], "try %d", i);
		backoff_next(&b, 0);
	}
}

Test(backoff, longest_wait_is_the_bound_and_counts)
{
	struct backoff b = {.base_ms = 50, .cap_ms = 150};

	cr_assert_eq(backoff_longest(&b), 50);
	cr_assert_eq(backoff_longest(&b), 100);
	cr_assert_eq(backoff_longest(&b), 150);
}

Test(backoff, wait_is_never_zero_and_never_above_the_cap)
{
	struct backoff b = {.base_ms = 100, .cap_ms = 3000};

	for (uint32_t i = 0; i < 100000; i++) {
		int64_t wait = backoff_next(&b, i * 2654435761u);

		cr_assert(wait >= 1 && wait <= 3000, "%lld", (long long)wait);
	}
	cr_assert_leq(backoff_next(&b, UINT32_MAX), 3000);
}

Test(backoff, every_wait_up_to_the_bound_may_come)
{
	bool seen[51] = {false};

	for (uint32_t random = 0; random < 50; random++) {
		struct backoff b = {.base_ms = 50, .cap_ms = 1000};

		seen[backoff_next(&b, random)] = true;
	}
	for (int wait = 1; wait <= 50; wait++)
		cr_assert(seen[wait], "%d", wait);
}

Test(backoff, wait_is_short_again_after_a_success)
{
	struct backoff b = {.base_ms = 50, .cap_ms = 1000};

	for (int i = 0; i < 10; i++)
		backoff_next(&b, 1);
	cr_assert_eq(bound(&b), 1000);
	backoff_reset(&b);
	cr_assert_eq(bound(&b), 50);
}

Test(backoff, count_of_tries_may_be_anything)
{
	struct backoff b = {.base_ms = 1000, .cap_ms = 30000, .tries = UINT32_MAX - 1};

	for (int i = 0; i < 3; i++) {
		int64_t wait = backoff_next(&b, 12345);

		cr_assert(wait >= 1 && wait <= 30000);
	}
}

Test(backoff, only_a_connection_that_lived_for_30_s_and_brought_something_was_a_success)
{
	struct backoff b = {.base_ms = 50, .cap_ms = 1000, .tries = 3};

	cr_assert_not(backoff_judge(&b, true, 29999));
	cr_assert_not(backoff_judge(&b, false, 3600000));
	cr_assert_eq(b.tries, 3);
	cr_assert(backoff_judge(&b, true, 30000));
	cr_assert_eq(b.tries, 0);
}
