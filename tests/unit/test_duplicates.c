/* What is counted of copies: in which bucket of delays, of how many different events, and which of the
 * late ones Postgres is asked about. */
#include "road/duplicates.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"

static json_t *told;

static void tell(void)
{
	json_decref(told);
	told = json_object();
	cr_assert_eq(duplicates_describe(told, 5000), 0);
}

static void fini(void)
{
	json_decref(told);
	duplicates_clear();
}

TestSuite(duplicates, .fini = fini, .timeout = 60);

static long long copies(size_t bucket)
{
	return json_integer_value(json_array_get(json_object_get(told, "copies"), bucket));
}

static double estimate(void)
{
	const char *hex = json_string_value(json_object_get(told, "sketch"));
	unsigned char sketch[DUPLICATES_SKETCH];

	cr_assert_eq(strlen(hex), 2 * DUPLICATES_SKETCH);
	for (size_t i = 0; i < DUPLICATES_SKETCH; i++)
		cr_assert_eq(sscanf(hex + 2 * i, "%2hhx", &sketch[i]), 1);
	return duplicates_estimate(sketch);
}

static void see(const char *prefix, long n, int64_t delay_ms)
{
	char id[40];

	for (long i = 0; i < n; i++)
		duplicates_seen(id, (size_t)sprintf(id, "%s-%ld", prefix, i), delay_ms);
}

Test(duplicates, delays_are_counted_from_each_power_of_two_to_the_next)
{
	static const struct {
		int64_t ms;
		size_t bucket;
	} cases[] = {{-5, 0},        {0, 0},     {1, 1},     {2, 2},     {3, 2},
		     {4, 3},         {1023, 10}, {1024, 11}, {1025, 11}, {INT64_C(1) << 39, 40},
		     {INT64_MAX, 40}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		duplicates_clear();
		duplicates_seen("a", 1, cases[i].ms);
		tell();
		cr_assert_eq(copies(cases[i].bucket), 1, "%lld", (long long)cases[i].ms);
		cr_assert_eq(json_array_size(json_object_get(told, "copies")), DUPLICATES_DELAYS);
	}
	cr_assert_eq(duplicate_delay.count, sizeof(cases) / sizeof(*cases));
}

Test(duplicates, different_events_are_counted_within_a_few_percent)
{
	static const long sizes[] = {1, 2, 10, 50, 200, 1000, 2500, 5000, 100000, 1000000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		double n = (double)sizes[i], off;

		duplicates_clear();
		see("order", sizes[i], 0);
		tell();
		off = (estimate() - n) / n;
		cr_assert(off < 0.1 && off > -0.1, "%ld events are told as %.1f", sizes[i], estimate());
		cr_assert(sizes[i] > 10 || (estimate() < n + 0.5 && estimate() > n - 0.5), "%.1f", estimate());
	}
}

Test(duplicates, event_that_comes_often_is_one_event)
{
	for (int i = 0; i < 100; i++)
		see("order", 20, i);
	tell();
	cr_assert(estimate() > 19 && estimate() < 21, "%.1f", estimate());
}

Test(duplicates, nothing_is_told_twice)
{
	see("a", 3, 7);
	duplicates_late("b", 1, 0);
	duplicates_clear();
	tell();
	cr_assert_eq(copies(3), 0);
	cr_assert_lt(estimate(), 0.5);
	cr_assert_eq(json_array_size(json_object_get(told, "late")), 0);
	cr_assert_eq(json_real_value(json_object_get(told, "late_weight")), 1);
}

Test(duplicates, late_copies_are_told_by_id_and_age)
{
	json_t *late;

	duplicates_late("caf\xc3\xa9", 5, 1500);
	tell();
	late = json_array_get(json_object_get(told, "late"), 0);
	cr_assert_str_eq(json_string_value(json_array_get(late, 0)), "caf\xc3\xa9");
	cr_assert_eq(json_integer_value(json_array_get(late, 1)), 3500);
	cr_assert(estimate() > 0.5);
}

/* Otherwise the first or the last of a minute would stand for all. */
Test(duplicates, of_many_late_copies_some_of_all_are_told_and_stand_for_the_others)
{
	const json_t *one;
	size_t i, count, early = 0;
	char id[40];

	for (int n = 0; n < 100000; n++)
		duplicates_late(id, (size_t)sprintf(id, "%d", n), 0);
	tell();
	count = json_array_size(json_object_get(told, "late"));
	cr_assert_eq(count, 500);
	cr_assert_eq(json_real_value(json_object_get(told, "late_weight")), 200);
	json_array_foreach(json_object_get(told, "late"), i, one) early +=
		strtol(json_string_value(json_array_get(one, 0)), NULL, 10) < 50000;
	cr_assert(early > 150 && early < 350, "%zu of 500 are of the first half", early);
}
