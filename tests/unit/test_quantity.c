/* Counts, sizes and durations. */
#include "base/quantity.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

struct sample {
	const char *text;
	int64_t value; /* -1: invalid */
};

static void expect_all(bool (*read)(const char *text, int64_t *value), const struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int64_t value = -7;
		bool is_read = read(samples[i].text, &value);

		cr_expect_eq(is_read, samples[i].value >= 0, "\"%s\" is%s read", samples[i].text,
			     is_read ? "" : " not");
		cr_expect_eq(value, is_read ? samples[i].value : -7, "\"%s\" is %lld", samples[i].text,
			     (long long)value);
	}
}

#define EXPECT(read, ...) \
	do { \
		static const struct sample samples[] = {__VA_ARGS__}; \
		expect_all(read, samples, sizeof(samples) / sizeof(samples[0])); \
	} while (0)

Test(quantity, counts_are_digits)
{
	EXPECT(quantity_count, {"0", 0}, {"007", 7}, {"9223372036854775807", INT64_MAX}, {"", -1}, {"-1", -1},
	       {"+1", -1}, {" 1", -1}, {"1 ", -1}, {"1.0", -1}, {"1K", -1}, {"9223372036854775808", -1});
}

Test(quantity, sizes_have_units_of_1024)
{
	EXPECT(quantity_bytes, {"64", 64}, {"64K", 65536}, {"64KiB", 65536}, {"3M", 3 << 20}, {"3MiB", 3 << 20},
	       {"2G", INT64_C(2) << 30}, {"2GiB", INT64_C(2) << 30}, {"8589934591GiB", INT64_C(8589934591) << 30},
	       {"8589934592GiB", -1}, {"17179869185GiB", -1}, {"KiB", -1}, {"1k", -1}, {"1KB", -1}, {"1 K", -1},
	       {"1.5M", -1}, {"", -1});
}

Test(quantity, durations_are_of_seconds_unless_they_have_a_unit)
{
	EXPECT(quantity_duration, {"30", 30 * QUANTITY_S}, {"30s", 30 * QUANTITY_S}, {"5m", 300 * QUANTITY_S},
	       {"12h", 12 * 3600 * QUANTITY_S}, {"30d", 30 * QUANTITY_DAY}, {"500ms", 500 * QUANTITY_MS},
	       {"0.25", 250 * QUANTITY_MS}, {"1.5s", 1500 * QUANTITY_MS}, {"0.5d", QUANTITY_DAY / 2}, {"0.000001", 1},
	       {"0.0005ms", 0}, {"0", 0}, {"007d", 7 * QUANTITY_DAY}, {"3652500d", 3652500 * QUANTITY_DAY},
	       {"0.9h", 54 * 60 * QUANTITY_S});
}

Test(quantity, what_is_no_duration_is_none)
{
	EXPECT(quantity_duration, {"", -1}, {"d", -1}, {"-1d", -1}, {"+1d", -1}, {".5", -1}, {"1.", -1}, {"1.s", -1},
	       {"0.0000001", -1}, {"1D", -1}, {"1 d", -1}, {" 1d", -1}, {"1d ", -1}, {"1d12h", -1}, {"1w", -1},
	       {"1y", -1}, {"1dd", -1}, {"1us", -1}, {"3652501d", -1}, {"9223372036854775807d", -1},
	       {"99999999999999999999999d", -1}, {"315576000001s", -1}, {"1e3", -1});
}

Test(quantity, durations_are_printed_in_the_largest_unit_without_a_rest)
{
	static const struct {
		int64_t s;
		const char *text;
	} cases[] = {{0, "0s"},    {45, "45s"},   {60, "1m"},     {90, "90s"},
		     {3600, "1h"}, {86400, "1d"}, {90000, "25h"}, {2592000, "30d"}};
	char out[40];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_str_eq(quantity_print_seconds(cases[i].s, out, sizeof(out)), cases[i].text);
		cr_expect_str_eq(quantity_print_duration(cases[i].s * QUANTITY_S, out, sizeof(out)), cases[i].text);
	}
	cr_expect_str_eq(quantity_print_duration(1, out, sizeof(out)), "0s");
	cr_expect_str_eq(quantity_print_duration(1500 * QUANTITY_MS, out, sizeof(out)), "1500ms");
	cr_expect_str_eq(quantity_print_seconds(INT64_MAX, out, sizeof(out)), "9223372036854775807s");
}
