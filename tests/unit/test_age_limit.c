/* Which events --max-age accepts, to the microsecond, and the reasons for which it refuses the others. */
#include "event/age_limit.h"
#include "unit.h"

#define SECOND 1000000LL
#define NOW    (1800000000 * SECOND)

static struct age_limit stale;

static void use(int64_t max_age_s, char *unit)
{
	age_limit_init(&stale, &(struct config){.max_age_s = max_age_s, .time_pointer = "/time", .time_unit = unit});
}

static const char *reason(const char *time)
{
	return age_limit_reason(&stale, (struct slice){time, time ? strlen(time) : 0}, stale.unit, NOW);
}

static void expect(const char *time, const char *why)
{
	const char *said = reason(time);

	cr_assert_not_null(said, "%s is taken", time);
	cr_assert_str_eq(said, why);
}

Test(age_limit, without_a_greatest_age_everything_is_taken)
{
	use(0, "rfc3339");
	cr_assert_null(reason("1970-01-01T00:00:00Z"));
	cr_assert_null(reason("yesterday"));
	cr_assert_null(reason(NULL));
}

Test(age_limit, event_is_taken_up_to_the_greatest_age)
{
	use(86400, "us");
	cr_assert_null(reason("1800000000000000"));
	cr_assert_null(reason("1799913600000000"));
	expect("1799913599999999", "stale: /time is more than 1d ago");
	expect("0", "stale: /time is more than 1d ago");
}

Test(age_limit, time_may_be_ahead_of_the_clock_by_an_hour)
{
	use(86400, "us");
	cr_assert_null(reason("1800003600000000"));
	expect("1800003600000001", "no time: /time is more than 1h ahead of the clock");
	expect("253402300799999999", "no time: /time is more than 1h ahead of the clock");
}

Test(age_limit, event_whose_age_cannot_be_known_is_not_taken)
{
	use(90, "rfc3339");
	expect(NULL, "no time: /time is missing or not a string or number");
	expect("1800000000", "no time: /time is not an RFC 3339 time, or not in the years 1970 to 9999");
	cr_assert_null(reason("2027-01-15T08:00:00Z"));
	expect("2027-01-15T07:58:29.999Z", "stale: /time is more than 90s ago");
	use(90, "s");
	expect("2027-01-15T08:00:00Z",
	       "no time: /time is not a number of seconds since 1970, or not in the years 1970 to 9999");
	cr_assert_null(reason("1800000000"));
	use(90, "ms");
	expect("", "no time: /time is not a number of milliseconds since 1970, or not in the years 1970 to 9999");
	cr_assert_null(reason("1800000000000"));
}

Test(age_limit, whole_message_may_be_the_time)
{
	age_limit_init(&stale, &(struct config){.max_age_s = 60, .time_pointer = "", .time_unit = "s"});
	expect("5", "stale: the message is more than 1m ago");
}
