/* timestamp.c parses and prints RFC 3339 and numbers since 1970. strptime and mktime know neither fractions nor
 * offsets, and use the time zone of the host. */
#include "base/timestamp.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define SECOND_US  INT64_C(1000000)
#define DAY_S      INT64_C(86400)
#define LAST_US    INT64_C(253402300799999999) /* 9999-12-31T23:59:59.999999Z */
#define POWERS_MAX 1000                        /* bound on exponents; no time before the year 10000 needs more */

/* The unread part of a text. */
struct rest {
	const char *at;
	const char *end;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Takes text of this shape, in which 0 stands for a digit, and the numbers in it. */
static bool take_shape(struct rest *r, const char *shape, int *numbers)
{
	*numbers = 0;
	for (; *shape; shape++, r->at++) {
		if (r->at == r->end)
			return false;
		if (*shape == '0' && is_digit(*r->at))
			*numbers = *numbers * 10 + (*r->at - '0');
		else if (*shape != '0' && *shape == *r->at)
			*++numbers = 0;
		else
			return false;
	}
	return true;
}

/* Takes one character if it is one of these. */
static bool take_one(struct rest *r, const char *these)
{
	if (r->at == r->end || !*r->at || !strchr(these, *r->at))
		return false;
	r->at++;
	return true;
}

/* --- RFC 3339 --- */

static int days_of_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && is_leap);
}

/* Returns days since 1970-01-01. The year begins in March, so that 29 February is its last day. */
static int64_t days_since_1970(int year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1;
	int64_t m = month > 2 ? month - 3 : month + 9;

	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static bool take_date(struct rest *r, int64_t *days)
{
	int n[3] = {0}; /* year, month, day */

	if (!take_shape(r, "0000-00-00", n) || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > days_of_month(n[0], n[1]))
		return false;
	*days = days_since_1970(n[0], n[1], n[2]);
	return true;
}

/* Takes hh:mm:ss, as seconds since midnight. */
static bool take_clock(struct rest *r, int *seconds, bool *is_leap)
{
	int n[3];

	if (!take_shape(r, "00:00:00", n))
		return false;
	*seconds = n[0] * 3600 + n[1] * 60 + n[2];
	*is_leap = n[2] == 60;
	return n[0] <= 23 && n[1] <= 59 && n[2] <= 60;
}

/* Takes a point and digits, if there is a point, as microseconds. */
static bool take_fraction(struct rest *r, int *us)
{
	int place = (int)SECOND_US;

	*us = 0;
	if (!take_one(r, "."))
		return true;
	if (r->at == r->end || !is_digit(*r->at))
		return false;
	for (; r->at < r->end && is_digit(*r->at); r->at++) {
		place /= 10;
		*us += (*r->at - '0') * place;
	}
	return true;
}

/* Takes the UTC offset, in seconds. */
static bool take_offset(struct rest *r, int *seconds)
{
	bool is_behind = r->at < r->end && *r->at == '-';
	int n[2];

	*seconds = 0;
	if (take_one(r, "Zz"))
		return true;
	if (!take_one(r, "+-") || !take_shape(r, "00:00", n))
		return false;
	*seconds = (n[0] * 3600 + n[1] * 60) * (is_behind ? -1 : 1);
	return n[0] <= 23 && n[1] <= 59;
}

static bool parse_rfc3339(struct rest r, int64_t *us)
{
	int64_t days, at;
	int clock, fraction, offset;
	bool is_leap;

	if (!take_date(&r, &days) || !take_one(&r, "Tt ") || !take_clock(&r, &clock, &is_leap) ||
	    !take_fraction(&r, &fraction) || !take_offset(&r, &offset) || r.at != r.end)
		return false;
	at = days * DAY_S + clock - offset;
	if (is_leap && at % DAY_S != 0)
		return false;
	*us = at * SECOND_US + fraction;
	return true;
}

/* --- numbers --- */

/* Takes the exponent of a JSON number, if there is one. Beyond POWERS_MAX the digits no longer count. */
static bool take_exponent(struct rest *r, int *powers)
{
	bool is_negative;

	*powers = 0;
	if (!take_one(r, "eE"))
		return true;
	is_negative = r->at < r->end && *r->at == '-';
	take_one(r, "+-");
	if (r->at == r->end || !is_digit(*r->at))
		return false;
	for (; r->at < r->end && is_digit(*r->at); r->at++)
		if (*powers < POWERS_MAX)
			*powers = *powers * 10 + (*r->at - '0');
	*powers *= is_negative ? -1 : 1;
	return true;
}

/* Appends a digit to value. Returns false if the result is beyond LAST_US. */
static bool push_digit(int64_t *value, int digit)
{
	*value = *value * 10 + digit;
	return *value <= LAST_US;
}

/* Reads a number of units of 10^powers microseconds. The digits are added up by hand: a double has too few for the
 * microseconds of a year like 2026. */
static bool parse_number(struct rest r, int powers, int64_t *us)
{
	struct rest digits = r;
	size_t whole, fraction = 0;
	int64_t value = 0, places;
	int exponent;

	while (r.at < r.end && is_digit(*r.at))
		r.at++;
	whole = (size_t)(r.at - digits.at);
	if (take_one(&r, ".")) {
		for (; r.at < r.end && is_digit(*r.at); r.at++)
			fraction++;
		if (!fraction)
			return false;
	}
	digits.end = r.at;
	if (!whole || !take_exponent(&r, &exponent) || r.at != r.end)
		return false;
	places = (int64_t)whole + powers + exponent; /* digits of whole microseconds */
	for (; places > 0 && digits.at < digits.end; digits.at++) {
		if (*digits.at == '.')
			continue;
		if (!push_digit(&value, *digits.at - '0'))
			return false;
		places--;
	}
	for (; places > 0 && value; places--)
		if (!push_digit(&value, 0))
			return false;
	*us = value;
	return true;
}

/* Reads 0x and hexadecimal digits, without a sign or a fraction. */
static bool parse_hex(struct rest r, int64_t *us)
{
	static const char digits[] = "0123456789abcdef";
	int64_t seconds = 0;

	if (!take_one(&r, "0") || !take_one(&r, "xX") || r.at == r.end)
		return false;
	for (; r.at < r.end; r.at++) {
		const char *digit = *r.at ? strchr(digits, *r.at | 0x20) : NULL;

		if (!digit)
			return false;
		seconds = seconds * 16 + (digit - digits);
		if (seconds > LAST_US / SECOND_US)
			return false;
	}
	*us = seconds * SECOND_US;
	return true;
}

/* --- any unit --- */

bool timestamp_parse(const char *text, size_t len, enum timestamp_unit unit, int64_t *us)
{
	struct rest r = {text, text + len};
	int64_t found = -1;
	bool is_read = false;

	switch (unit) {
	case TIMESTAMP_RFC3339:
		is_read = parse_rfc3339(r, &found);
		break;
	case TIMESTAMP_S:
		is_read = parse_number(r, 6, &found);
		break;
	case TIMESTAMP_MS:
		is_read = parse_number(r, 3, &found);
		break;
	case TIMESTAMP_US:
		is_read = parse_number(r, 0, &found);
		break;
	case TIMESTAMP_NS:
		is_read = parse_number(r, -3, &found);
		break;
	case TIMESTAMP_HEX_S:
		is_read = parse_hex(r, &found);
		break;
	}
	if (!is_read || found < 0 || found > LAST_US)
		return false;
	*us = found;
	return true;
}

static const char *const names[] = {"rfc3339", "s", "ms", "us", "ns", "hex_s"};

const char *timestamp_unit_name(enum timestamp_unit unit)
{
	return names[unit];
}

enum timestamp_unit timestamp_unit_named(const char *name)
{
	return (enum timestamp_unit)find_word(TIMESTAMP_UNITS, name);
}

const char *timestamp_print_to(int64_t us, int digits, char out[TIMESTAMP_SIZE])
{
	time_t s = (time_t)(us / 1000000 - (us % 1000000 < 0));
	char fraction[16];
	size_t n;
	struct tm tm;

	gmtime_r(&s, &tm);
	n = strftime(out, TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(fraction, sizeof(fraction), ".%06d", (int)(us - (int64_t)s * 1000000));
	snprintf(out + n, TIMESTAMP_SIZE - n, "%.*sZ", digits ? digits + 1 : 0, fraction);
	return out;
}

const char *timestamp_print(int64_t us, char out[TIMESTAMP_SIZE])
{
	return timestamp_print_to(us, 6, out);
}
