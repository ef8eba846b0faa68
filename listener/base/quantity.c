/* quantity.c knows the units of sizes and durations. */
#include "base/quantity.h"

#include <stdio.h>
#include <string.h>

#define LONGEST_US (INT64_C(3652500) * QUANTITY_DAY) /* 10,000 years */
#define PLACES     6                                 /* decimals: microseconds of a second */
#define SECONDS    2                                 /* index in durations */

struct unit {
	const char *name;
	int64_t size;
};

static const struct unit sizes[] = {
	{"", 1}, {"K", 1 << 10}, {"KiB", 1 << 10}, {"M", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30}, {"GiB", 1 << 30},
};

/* In ascending order, beginning with ms: print() takes the largest unit that divides the value. */
static const struct unit durations[] = {
	{"", QUANTITY_S},       {"ms", QUANTITY_MS},      {"s", QUANTITY_S},
	{"m", 60 * QUANTITY_S}, {"h", 3600 * QUANTITY_S}, {"d", QUANTITY_DAY},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads digits and moves *at past them. */
static bool read_digits(const char **at, int64_t *n)
{
	int64_t value = 0;

	if (!is_digit(**at))
		return false;
	for (; is_digit(**at); ++*at)
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, **at - '0', &value))
			return false;
	*n = value;
	return true;
}

static int64_t find_size(const struct unit *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, name) == 0)
			return table[i].size;
	return 0;
}

bool quantity_count(const char *text, int64_t *n)
{
	int64_t value;

	if (!read_digits(&text, &value) || *text)
		return false;
	*n = value;
	return true;
}

bool quantity_bytes(const char *text, int64_t *bytes)
{
	int64_t value, size;

	if (!read_digits(&text, &value))
		return false;
	size = find_size(sizes, COUNT(sizes), text);
	if (!size || __builtin_mul_overflow(value, size, &value))
		return false;
	*bytes = value;
	return true;
}

/* Reads decimals, in millionths. */
static bool read_fraction(const char **at, int64_t *millionths)
{
	const char *begin = *at;

	if (!read_digits(at, millionths) || *at - begin > PLACES)
		return false;
	for (long places = *at - begin; places < PLACES; places++)
		*millionths *= 10;
	return true;
}

bool quantity_duration(const char *text, int64_t *us)
{
	int64_t whole, millionths = 0, size, value;

	if (!read_digits(&text, &whole))
		return false;
	if (*text == '.' && (text++, !read_fraction(&text, &millionths)))
		return false;
	size = find_size(durations, COUNT(durations), text);
	if (!size || __builtin_mul_overflow(whole, size, &value) || value > LONGEST_US)
		return false;
	*us = value + millionths * (size / QUANTITY_MS) / (QUANTITY_S / QUANTITY_MS);
	return true;
}

/* Prints value, a number of units of us microseconds each. */
static const char *print(int64_t value, int64_t us, char *out, size_t size)
{
	size_t i = value ? COUNT(durations) - 1 : SECONDS;

	while (durations[i].size > us && value % (durations[i].size / us))
		i--;
	snprintf(out, size, "%lld%s", (long long)(value / (durations[i].size / us)), durations[i].name);
	return out;
}

const char *quantity_print_duration(int64_t us, char *out, size_t size)
{
	return print(us / QUANTITY_MS, QUANTITY_MS, out, size);
}

const char *quantity_print_seconds(int64_t s, char *out, size_t size)
{
	return print(s, QUANTITY_S, out, size);
}
