/* How many rows one statement may have. */
#include "store/limit.h"
#include "unit.h"

static struct limit limit;

static void set_up(void)
{
	limit_init(&limit, 1000, 1000, 8000);
}

TestSuite(limit, .init = set_up);

/* Sends n rows to a server that can take `fits` of them at once. Returns the number of statements. */
static int store(size_t n, size_t fits)
{
	int statements = 0;

	for (size_t rows; n; statements++) {
		rows = n < limit.rows ? n : limit.rows;
		if (rows > fits) {
			limit_lower(&limit, rows);
			continue;
		}
		limit_raise(&limit, rows, rows, 0);
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

/* As after an outage, when several listeners have the same events. */
Test(limit, rows_that_are_there_say_nothing_about_slow_rows)
{
	limit_init(&limit, 1000, 1000, 3000);
	limit_raise(&limit, 1000, 3, 800);
	cr_assert_eq(limit.rows, 1000);
	limit_init(&limit, 16, 1000, 3000);
	for (int statement = 0; statement < 9; statement++)
		limit_raise(&limit, limit.rows, 0, 800);
	cr_assert_eq(limit.rows, 1000);
}

Test(limit, slow_rows_fill_a_quarter_of_the_timeout)
{
	limit_init(&limit, 16, 1000, 8000);
	for (int statement = 0; statement < 100; statement++) {
		cr_assert_leq(limit.rows * 50, 2050);
		limit_raise(&limit, limit.rows, limit.rows, (int64_t)limit.rows * 50);
	}
	cr_assert_geq(limit.rows * 50, 1000);
	limit_raise(&limit, 3, 3, 3000);
	cr_assert_leq(limit.rows, 3);
	for (int statement = 0; statement < 10; statement++)
		limit_raise(&limit, limit.rows, limit.rows, 5);
	cr_assert_eq(limit.rows, 1000);
}

Test(limit, slow_rows_fill_two_seconds_of_a_long_timeout)
{
	static const int64_t row_ms[] = {3, 5, 10, 20, 50, 70, 130};

	for (size_t i = 0; i < sizeof(row_ms) / sizeof(*row_ms); i++) {
		int64_t longest = 0;

		limit_init(&limit, 16, 1000, 30000);
		for (int statement = 0; statement < 100; statement++) {
			int64_t ms = (int64_t)limit.rows * row_ms[i];

			cr_assert(ms <= 2090, "%zu rows, %lld ms", limit.rows, (long long)row_ms[i]);
			limit_raise(&limit, limit.rows, limit.rows, ms);
			longest = statement > 90 && ms > longest ? ms : longest;
		}
		cr_assert(longest >= 1000, "%lld ms: %lld", (long long)row_ms[i], (long long)longest);
	}
}

/* As with commits that wait for a standby far away: the rows are not what takes long. */
Test(limit, slow_statements_of_few_rows_get_larger)
{
	static const int64_t took_ms[] = {400, 1500, 2000, 4000};

	for (size_t i = 0; i < sizeof(took_ms) / sizeof(*took_ms); i++) {
		for (size_t first = 1; first <= 64; first += 9) {
			limit_init(&limit, 4000, 4000, 30000);
			limit_raise(&limit, first, first, took_ms[i]);
			for (int statement = 0; statement < 20; statement++)
				limit_raise(&limit, limit.rows, limit.rows,
					    took_ms[i] + statement % 2 * 50 + (int64_t)limit.rows / 10);
			cr_assert_geq(limit.rows, 1000, "%zu rows first, %lld ms", first, (long long)took_ms[i]);
		}
	}
}

/* A handler, and then the disk. */
Test(limit, statements_that_become_slow_behind_slow_rows_get_larger)
{
	limit_init(&limit, 16, 4000, 30000);
	for (int statement = 0; statement < 40; statement++)
		limit_raise(&limit, limit.rows, limit.rows, (int64_t)limit.rows * 50);
	for (int statement = 0; statement < 50; statement++)
		limit_raise(&limit, limit.rows, limit.rows, 1600);
	cr_assert_geq(limit.rows, 1000);
}

Test(limit, slow_statements_of_many_rows_do_not_get_smaller)
{
	for (int statement = 0; statement < 100; statement++)
		limit_raise(&limit, limit.rows, limit.rows, 1900);
	cr_assert_eq(limit.rows, 1000);
}
