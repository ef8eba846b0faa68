/* Moments and durations, as producers and people write them: exactly those are accepted that a second reader accepts,
 * which computes with timegm() and with strings of digits.
 *
 * An input is a letter, r (RFC 3339), s, m, u (numbers in seconds, ms, us) or a (a duration), and the text. */
#include "base/quantity.h"
#include "base/timestamp.h"

#include <regex.h>
#include <time.h>

#include "fuzz.h"

#define LAST_US INT64_C(253402300799999999)

static regex_t rfc3339, number, duration;

static void compile(regex_t *to, const char *pattern)
{
	must(regcomp(to, pattern, REG_EXTENDED) == 0, "cannot compile %s", pattern);
}

static int digits(const char *at, int n)
{
	int value = 0;

	while (n--)
		value = value * 10 + (*at++ - '0');
	return value;
}

/* Reads a time by the C library's calendar. Returns false if it does not exist. */
static bool read_rfc3339(const char *text, int64_t *us)
{
	regmatch_t part[4];
	struct tm tm = {0}, back;
	int64_t s, offset = 0;
	bool is_leap;

	if (regexec(&rfc3339, text, 4, part, 0))
		return false;
	tm.tm_year = digits(text, 4) - 1900;
	tm.tm_mon = digits(text + 5, 2) - 1;
	tm.tm_mday = digits(text + 8, 2);
	tm.tm_hour = digits(text + 11, 2);
	tm.tm_min = digits(text + 14, 2);
	is_leap = digits(text + 17, 2) == 60;
	tm.tm_sec = is_leap ? 59 : digits(text + 17, 2);
	back = tm;
	s = timegm(&back);
	if (back.tm_mday != tm.tm_mday || back.tm_mon != tm.tm_mon || back.tm_hour != tm.tm_hour ||
	    back.tm_min != tm.tm_min || back.tm_sec != tm.tm_sec)
		return false;
	if (part[3].rm_so >= 0) {
		const char *zone = text + part[3].rm_so;

		if (digits(zone + 1, 2) > 23 || digits(zone + 4, 2) > 59)
			return false;
		offset = digits(zone + 1, 2) * 3600 + digits(zone + 4, 2) * 60;
		offset = *zone == '-' ? -offset : offset;
	}
	s += is_leap - offset;
	if (is_leap && s % 86400 != 0)
		return false;
	*us = s * 1000000;
	for (int i = 0, place = 100000; part[1].rm_so >= 0 && i < part[1].rm_eo - part[1].rm_so - 1; i++, place /= 10)
		*us += (text[part[1].rm_so + 1 + i] - '0') * place;
	return *us >= 0 && *us <= LAST_US;
}

/* Moves the decimal point of a string of digits. */
static bool read_number(const char *text, int powers, int64_t *us)
{
	regmatch_t part[6];
	long exponent = 0;
	size_t whole;

	if (regexec(&number, text, 6, part, 0))
		return false;
	if (part[5].rm_so >= 0)
		exponent = strtol(text + part[5].rm_so, NULL, 10); /* LONG_MAX where it is out of range */
	exponent = exponent > 5000 ? 5000 : exponent < -5000 ? -5000 : exponent;
	whole = (size_t)(part[1].rm_eo - part[1].rm_so);
	*us = 0;
	for (long place = (long)whole + exponent + powers, i = 0; i < place; i++) {
		char digit = '0';

		if (i < (long)whole)
			digit = text[i];
		else if (part[3].rm_so >= 0 && i - (long)whole < part[3].rm_eo - part[3].rm_so)
			digit = text[part[3].rm_so + i - (long)whole];
		*us = *us * 10 + (digit - '0');
		if (*us > LAST_US)
			return false;
	}
	return true;
}

static void check_moment(const char *text, size_t len, enum timestamp_unit unit)
{
	static const int powers[] = {[TIMESTAMP_S] = 6, [TIMESTAMP_MS] = 3, [TIMESTAMP_US] = 0};
	int64_t us = -7, expected = 0;
	bool is_right =
		!memchr(text, '\0', len) && (unit == TIMESTAMP_RFC3339 ? read_rfc3339(text, &expected)
								       : read_number(text, powers[unit], &expected));
	char *copy = memcpy(malloc(len ? len : 1), text, len); /* of its exact size: ASan sees a step beyond it */

	must(timestamp_parse(copy, len, unit, &us) == is_right, "%s: \"%s\"", is_right ? "not taken" : "taken", text);
	must(us == (is_right ? expected : -7), "\"%s\" is %lld, not %lld", text, (long long)us, (long long)expected);
	free(copy);
}

/* Digits beyond the millisecond are not printed. */
static void check_duration(const char *text)
{
	char printed[40];
	int64_t us = -7, again = -7;
	bool is_taken = quantity_duration(text, &us);

	must(is_taken ? regexec(&duration, text, 0, NULL, 0) == 0 && us >= 0 : us == -7, "a duration: \"%s\"", text);
	if (!is_taken)
		return;
	quantity_print_duration(us, printed, sizeof(printed));
	must(quantity_duration(printed, &again) && again == us - us % QUANTITY_MS, "\"%s\" is %lld us, \"%s\" is %lld",
	     text, (long long)us, printed, (long long)again);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	compile(&rfc3339, "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?"
			  "([Zz]|([+-][0-9]{2}:[0-9]{2}))$");
	compile(&number, "^([0-9]+)([.]([0-9]+))?([eE]([+-]?[0-9]+))?$");
	compile(&duration, "^[0-9]+([.][0-9]{1,6})?(ms|[dhms])?$");
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	if (!size)
		return;
	char *text = strndup((const char *)data + 1, size - 1);
	switch (*data) {
	case 'r':
		check_moment(text, strlen(text), TIMESTAMP_RFC3339);
		break;
	case 's':
		check_moment(text, strlen(text), TIMESTAMP_S);
		break;
	case 'm':
		check_moment(text, strlen(text), TIMESTAMP_MS);
		break;
	case 'u':
		check_moment(text, strlen(text), TIMESTAMP_US);
		break;
	case 'a':
		check_duration(text);
		break;
	default:
		break;
	}
	free(text);
}
