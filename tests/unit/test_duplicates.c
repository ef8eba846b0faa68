/* What is counted of copies: in which bucket of delays, and which of the late ones Postgres is asked about. */
#include "road/duplicates.h"

#include "unit.h"
#include "base/counters.h"

static json_t *told;

static void tell(void)
{
	json_decref(told);
	told = json_object();
	duplicates_describe(told, 5000);
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
		duplicates_seen(cases[i].ms);
		tell();
		cr_assert_eq(copies(cases[i].bucket), 1, "%lld", (long long)cases[i].ms);
		cr_assert_eq(json_array_size(json_object_get(told, "copies")), DUPLICATES_DELAYS);
	}
	cr_assert_eq(duplicate_delay.count, sizeof(cases) / sizeof(*cases));
}

Test(duplicates, nothing_is_told_twice)
{
	duplicates_seen(7);
	duplicates_late("b", 1, 0);
	duplicates_clear();
	tell();
	cr_assert_eq(copies(3), 0);
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
