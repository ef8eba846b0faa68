/* How many rows one statement may have. */
#include "road/limit.h"
#include "unit.h"

static struct limit limit;

static void set_up(void)
{
	limit_init(&limit, 1000);
}

TestSuite(limit, .init = set_up);

/* Sends n rows to a server that can take fits of them at once. Returns how many statements it took. */
static int store(size_t n, size_t fits)
{
	int statements = 0;

	for (size_t rows; n; statements++) {
		rows = n < limit.rows ? n : limit.rows;
		if (rows > fits) {
			limit_lower(&limit, rows);
			continue;
		}
		limit_raise(&limit, rows);
		n -= rows;
	}
	return statements;
}

Test(limit, nothing_limits_a_server_that_is_quick_enough)
{
	cr_assert_eq(store(10000, 1000), 10);
}

Test(limit, statements_that_take_too_long_get_smaller)
{
	int halvings = 5;

	limit_lower(&limit, 1000);
	cr_assert_leq(store(600, 60), halvings + 600 / 30);
	cr_assert(limit.rows >= 30 && limit.rows <= 60, "%zu", limit.rows);
}

Test(limit, what_was_too_much_is_tried_again_now_and_then)
{
	store(1000, 60);
	cr_assert_leq(store(100000, 60), 100000 / 31 * 34 / 32);
	cr_assert_leq(store(100000, 1000), 100000 / 1000 + 40);
}

Test(limit, a_single_row_that_takes_too_long_says_nothing_about_others)
{
	for (size_t rows = 1000; rows; rows /= 2)
		limit_lower(&limit, rows);
	cr_assert_eq(limit.rows, 1);
	store(1023, 1000);
	cr_assert_eq(limit.rows, 1000);
}
