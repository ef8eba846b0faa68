/* Which times and ages are accepted, to the microsecond. */
#include "base/timestamp.h"
#include "unit.h"

#define SECOND_US 1000000LL

/* Reads text from a block of its exact size, so that ASan notices a read beyond it. */
static bool parse(const char *text, size_t len, enum timestamp_unit unit, int64_t *us)
{
	char *kept = malloc(len ? len : 1);

	memcpy(kept, text, len);
	bool is_read = timestamp_parse(kept, len, unit, us);
	free(kept);
	return is_read;
}

static void expect(const char *text, enum timestamp_unit unit, long long us)
{
	int64_t found = -7;

	cr_assert(parse(text, strlen(text), unit, &found), "%s is not read", text);
	cr_assert_eq(found, us, "%s is %lld, not %lld", text, (long long)found, us);
}

static void expect_none(const char *text, enum timestamp_unit unit)
{
	int64_t found = -7;

	cr_assert(!parse(text, strlen(text), unit, &found), "%s is read as %lld", text, (long long)found);
	cr_assert_eq(found, -7, "%s changes the result", text);
}

static void expect_rfc3339(const char *text, long long us)
{
	expect(text, TIMESTAMP_RFC3339, us);
}

/* --- hexadecimal seconds --- */

Test(timestamp, hexadecimal_seconds_have_0x_and_digits_alone)
{
	expect("0x54e34e8e", TIMESTAMP_HEX_S, 1424182926 * SECOND_US);
	expect("0X54E34E8E", TIMESTAMP_HEX_S, 1424182926 * SECOND_US);
	expect("0x0", TIMESTAMP_HEX_S, 0);
	expect_none("0x", TIMESTAMP_HEX_S);
	expect_none("54e34e8e", TIMESTAMP_HEX_S);
	expect_none("0x54e34e8g", TIMESTAMP_HEX_S);
	expect_none("0x-1", TIMESTAMP_HEX_S);
	expect_none("0xffffffffffffffffffff", TIMESTAMP_HEX_S);
}

/* --- RFC 3339 --- */

Test(timestamp, rfc3339_is_read_in_all_its_forms)
{
	expect_rfc3339("1970-01-01T00:00:00Z", 0);
	expect_rfc3339("1970-01-01t00:00:01z", SECOND_US);
	expect_rfc3339("1985-04-12T23:20:50.52Z", 482196050520000);
	expect_rfc3339("1996-12-19T16:39:57-08:00", 851042397 * SECOND_US);
	expect_rfc3339("2001-09-09 01:46:40Z", 1000000000 * SECOND_US);
	expect_rfc3339("2001-09-09T01:46:40+00:00", 1000000000 * SECOND_US);
	expect_rfc3339("2001-09-09T01:46:40-00:00", 1000000000 * SECOND_US);
	expect_rfc3339("2001-09-09T13:31:40+11:45", 1000000000 * SECOND_US);
	expect_rfc3339("2001-09-08T01:47:40-23:59", 1000000000 * SECOND_US);
	expect_rfc3339("9999-12-31T23:59:59.999999Z", 253402300799999999);
}

Test(timestamp, rfc3339_fractions_are_cut_off_after_microseconds)
{
	expect_rfc3339("1970-01-01T00:00:00.1Z", 100000);
	expect_rfc3339("1970-01-01T00:00:00.000001Z", 1);
	expect_rfc3339("1970-01-01T00:00:00.0000019999999999999999999999Z", 1);
	expect_rfc3339("1970-01-01T00:00:00.123456789+00:00", 123456);
	expect_none("1970-01-01T00:00:00.Z", TIMESTAMP_RFC3339);
	expect_none("1970-01-01T00:00:00,5Z", TIMESTAMP_RFC3339);
}

Test(timestamp, leap_seconds_are_the_second_after_59_at_the_end_of_a_utc_day)
{
	expect_rfc3339("1990-12-31T23:59:60Z", 662688000 * SECOND_US);
	expect_rfc3339("1990-12-31T15:59:60-08:00", 662688000 * SECOND_US);
	expect_rfc3339("2016-12-31T23:59:60.5Z", 1483228800 * SECOND_US + 500000);
	expect_none("2016-12-31T23:58:60Z", TIMESTAMP_RFC3339);
	expect_none("2016-12-31T23:59:60+01:00", TIMESTAMP_RFC3339);
	expect_none("2016-12-31T23:59:61Z", TIMESTAMP_RFC3339);
}

Test(timestamp, moments_outside_of_1970_to_9999_in_utc_are_none)
{
	expect_none("0001-01-01T00:00:00Z", TIMESTAMP_RFC3339);
	expect_none("1969-12-31T23:59:59.999999Z", TIMESTAMP_RFC3339);
	expect_none("1970-01-01T00:00:00+00:01", TIMESTAMP_RFC3339);
	expect_rfc3339("1969-12-31T23:59:00-00:01", 0);
	expect_none("9999-12-31T23:59:59-00:01", TIMESTAMP_RFC3339);
	expect_none("9999-12-31T23:59:60Z", TIMESTAMP_RFC3339);
	expect_none("10000-01-01T00:00:00Z", TIMESTAMP_RFC3339);
}

/* --- numbers --- */

Test(timestamp, numbers_are_read_in_their_unit)
{
	expect("1700000000", TIMESTAMP_S, 1700000000 * SECOND_US);
	expect("1700000000", TIMESTAMP_MS, 1700000 * SECOND_US);
	expect("1700000000", TIMESTAMP_US, 1700 * SECOND_US);
	expect("0", TIMESTAMP_S, 0);
	expect("00017", TIMESTAMP_S, 17 * SECOND_US);
	expect("253402300799", TIMESTAMP_S, 253402300799 * SECOND_US);
	expect("253402300799999999", TIMESTAMP_US, 253402300799999999);
}

Test(timestamp, fractions_of_numbers_keep_their_microseconds)
{
	expect("1700000000.123456", TIMESTAMP_S, 1700000000123456);
	expect("1700000000.1", TIMESTAMP_S, 1700000000100000);
	expect("1700000000.9999999", TIMESTAMP_S, 1700000000999999);
	expect("1700000000123.456", TIMESTAMP_MS, 1700000000123456);
	expect("1700000000123456.9", TIMESTAMP_US, 1700000000123456);
	expect("1700000000123456789", TIMESTAMP_NS, 1700000000123456);
	expect("999", TIMESTAMP_NS, 0);
	expect("0.0000001", TIMESTAMP_S, 0);
	expect("253402300799.9999999", TIMESTAMP_S, 253402300799999999);
}

Test(timestamp, exponents_move_the_point)
{
	expect("1.7e9", TIMESTAMP_S, 1700000000 * SECOND_US);
	expect("1.7E+09", TIMESTAMP_S, 1700000000 * SECOND_US);
	expect("1700000000123456e-6", TIMESTAMP_S, 1700000000123456);
	expect("0.17e10", TIMESTAMP_S, 1700000000 * SECOND_US);
	expect("17e-3", TIMESTAMP_US, 0);
	expect("5e-999999999999999999999", TIMESTAMP_S, 0);
	expect("0e999999999999999999999", TIMESTAMP_S, 0);
	expect_none("1e999999999999999999999", TIMESTAMP_S);
	expect_none("1e12", TIMESTAMP_S);
}

Test(timestamp, units_have_names)
{
	cr_assert_eq(timestamp_unit_named("rfc3339"), TIMESTAMP_RFC3339);
	cr_assert_eq(timestamp_unit_named("s"), TIMESTAMP_S);
	cr_assert_eq(timestamp_unit_named("ms"), TIMESTAMP_MS);
	cr_assert_eq(timestamp_unit_named("us"), TIMESTAMP_US);
	cr_assert_eq(timestamp_unit_named("ns"), TIMESTAMP_NS);
	cr_assert_eq(timestamp_unit_named("hex_s"), TIMESTAMP_HEX_S);
}
