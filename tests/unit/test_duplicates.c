/* How copies are counted: in which bucket of delays, and which late ones are looked up in Postgres. */
#include "event/duplicates.h"

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
		duplicates_seen("a", 1, cases[i].ms);
		tell();
		cr_assert_eq(copies(cases[i].bucket), 1, "%lld", (long long)cases[i].ms);
		cr_assert_eq(json_array_size(json_object_get(told, "copies")), DUPLICATES_DELAYS);
	}
	cr_assert_eq(duplicate_delay.count, sizeof(cases) / sizeof(*cases));
}

Test(duplicates, nothing_is_told_twice)
{
	duplicates_seen("a", 1, 7);
	duplicates_late("b", 1, 0);
	duplicates_clear();
	tell();
	cr_assert_eq(copies(3), 0);
	cr_assert_eq(json_object_size(json_object_get(told, "keys")), 0);
	cr_assert_null(json_object_get(told, "closest"));
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

/* Otherwise only the first or the last copies of a minute would be looked up. */
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

static long long ms_of(const char *pair, const char *id)
{
	const json_t *told_pair = json_object_get(told, pair);

	cr_assert_str_eq(json_string_value(json_array_get(told_pair, 1)), id);
	return json_integer_value(json_array_get(told_pair, 0));
}

Test(duplicates, copies_of_each_key_are_counted_and_the_closest_and_the_farthest_pair_kept)
{
	json_t *copies_of;
	const char *key;
	long long sum = 0;

	duplicates_seen("a", 1, 700);
	duplicates_seen("b", 1, 20);
	duplicates_seen("a", 1, 90);
	duplicates_late("a", 1, 0);
	duplicates_seen("c", 1, -3);
	tell();
	json_object_foreach(json_object_get(told, "keys"), key, copies_of)
	{
		cr_assert_eq(strlen(key), 16, "%s", key);
		sum = sum * 10 + json_integer_value(copies_of);
	}
	cr_assert(sum == 311 || sum == 131 || sum == 113, "%lld", sum);
	cr_assert_eq(ms_of("closest", "c"), 0);
	cr_assert_eq(ms_of("farthest", "a"), 700);
}

/* Independent of the order, or two listeners would sample different keys. */
Test(duplicates, of_many_keys_those_with_the_smallest_hashes_are_counted_in_full)
{
	char id[20];

	for (int n = 0; n < 2 * 5000; n++)
		duplicates_seen(id, (size_t)sprintf(id, "%d", n % 5000), 1);
	tell();
	json_t *upwards = json_incref(json_object_get(told, "keys"));
	cr_assert_eq(json_object_size(upwards), 256);
	duplicates_clear();
	for (int n = 2 * 5000; n > 0; n--)
		duplicates_seen(id, (size_t)sprintf(id, "%d", n % 5000), 1);
	tell();
	cr_assert(json_equal(upwards, json_object_get(told, "keys")));
	json_decref(upwards);
}
