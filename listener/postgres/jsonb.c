/* jsonb.c finds what jsonb cannot hold: \u0000, an unpaired surrogate, and a number out of numeric's range. */
#include "postgres/jsonb.h"

#include <stdbool.h>
#include <string.h>

#include "base/json.h"

/* Limits of Postgres's numeric (numeric.c): digits before the decimal point, without leading zeros, and after it. */
#define DIGITS_BEFORE 131072
#define DIGITS_BEHIND 16383
#define EXPONENT_MOST 1073741823

static bool has_nul(const char *at, const char *end)
{
	for (at = memchr(at, '\\', (size_t)(end - at)); at; at = memchr(at + 2, '\\', (size_t)(end - at - 2)))
		if (end - at > 5 && memcmp(at + 1, "u0000", 5) == 0)
			return true;
	return false;
}

static long count_digits(const char **at, const char *end)
{
	const char *begin = *at;

	while (*at < end && **at >= '0' && **at <= '9')
		++*at;
	return *at - begin;
}

/* True if the number is out of numeric's range. Moves *at past it. */
static bool is_beyond(const char **at, const char *end)
{
	const char *digits = *at + (**at == '-'), *first = digits;
	long before, behind = 0, zeros, exponent;
	bool is_zero;

	*at = digits;
	before = count_digits(at, end);
	if (*at < end && **at == '.') {
		++*at;
		behind = count_digits(at, end);
	}
	while (first < *at && (*first == '0' || *first == '.'))
		first++;
	is_zero = first == *at;
	zeros = first - digits - (first - digits > before); /* leading zeros, without the point */
	exponent = json_read_exponent(at, end, EXPONENT_MOST);
	return exponent >= EXPONENT_MOST || exponent <= -EXPONENT_MOST || behind - exponent > DIGITS_BEHIND ||
	       (!is_zero && before - zeros + exponent > DIGITS_BEFORE);
}

const char *jsonb_fault(struct slice value)
{
	const char *at = value.at, *end = at + value.len;
	bool has_escape;

	if (has_nul(at, end))
		return "the payload contains \\u0000, which Postgres cannot store";
	if (json_has_half_pair(at, value.len))
		return "the payload contains an unpaired surrogate";
	while (at < end) {
		if (*at == '"')
			at = json_skip_string(at, &has_escape);
		else if (*at != '-' && (*at < '0' || *at > '9'))
			at++;
		else if (is_beyond(&at, end))
			return "the payload contains a number that is out of Postgres's range";
	}
	return NULL;
}
