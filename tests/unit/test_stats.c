/* Counters and histograms. A test is a process of its own, so all of them are 0 at first. */
#include "base/counters.h"
#include "unit.h"

struct seen {
	size_t count;
	uint64_t sum;
	uint64_t batches;
};

static void put(void *arg, const char *name, const char *meaning, uint64_t value)
{
	struct seen *seen = arg;

	cr_assert(*name && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name), "%s", name);
	cr_assert(meaning[strlen(meaning) - 1] == '.', "%s: %s", name, meaning);
	seen->count++;
	seen->sum += value;
	if (strcmp(name, "batches") == 0)
		seen->batches = value;
}

Test(stats, every_counter_is_put_once_with_its_value)
{
	struct seen seen = {0};

	counters.batches = 7;
	counters.pauses = 1;
	counters_each(put, &seen);
	cr_assert_eq(seen.count, sizeof(struct counters) / sizeof(uint64_t));
	cr_assert_eq(seen.sum, 8);
	cr_assert_eq(seen.batches, 7);
}

Test(stats, observation_falls_into_the_bucket_that_bounds_it)
{
	static const double bounds[] = HISTOGRAM_BOUNDS_MS;
	int n = sizeof(bounds) / sizeof(*bounds);

	cr_assert_eq(n, HISTOGRAM_BUCKETS - 1);
	for (int i = 0; i < n; i++) {
		struct histogram h = {0};

		histogram_observe(&h, bounds[i]);
		cr_assert_eq(h.buckets[i], 1, "%g", bounds[i]);
		histogram_observe(&h, bounds[i] + 0.001);
		cr_assert_eq(h.buckets[i + 1], 1, "%g", bounds[i]);
	}
}

Test(stats, count_and_sum_are_of_all_observations)
{
	struct histogram h = {0};

	histogram_observe(&h, 0.5);
	histogram_observe(&h, 2.5);
	histogram_observe(&h, 1e9);
	cr_assert_eq(h.count, 3);
	cr_assert_float_eq(h.sum_ms, 1e9 + 3, 1e-6);
	cr_assert_eq(h.buckets[HISTOGRAM_BUCKETS - 1], 1);
}

Test(stats, negative_observation_counts_as_zero)
{
	struct histogram h = {0};

	histogram_observe(&h, -5);
	cr_assert_eq(h.buckets[0], 1);
	cr_assert_eq(h.sum_ms, 0);
}
