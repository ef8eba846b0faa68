/* sort_key.c makes the keys by which JSON numbers and strings are compared. A number becomes 0.DIGITS times
 * 10^exponent, where the first digit is not 0; if it is negative, each digit is replaced by its complement. */
#include "base/sort_key.h"

#include <string.h>

#include "base/json.h"

#define EXPONENT_DIGITS 9
#define EXPONENT_MAX    400000000 /* larger exponents count as this one */

static size_t number_key(struct slice value, char *out)
{
	const char *at = value.at, *end = at + value.len;
	bool is_negative = *at == '-', is_whole = true;
	char *digits = out + 1 + EXPONENT_DIGITS;
	long exponent = 0, more;
	size_t n = 0;

	for (at += is_negative; at < end && (*at | 0x20) != 'e'; at++) {
		if (*at == '.') {
			is_whole = false;
			continue;
		}
		exponent += is_whole;
		if (n || *at != '0')
			digits[n++] = *at;
		else
			exponent--;
	}
	while (n && digits[n - 1] == '0')
		n--;
	*out = '1';
	if (n)
		*out = is_negative ? '0' : '2';
	if (!n)
		return 1;
	more = json_read_exponent(&at, end, EXPONENT_MAX);
	exponent += more > EXPONENT_MAX ? EXPONENT_MAX : more < -EXPONENT_MAX ? -EXPONENT_MAX : more;
	exponent += EXPONENT_MAX + EXPONENT_MAX / 10;
	for (char *to = digits; to > out + 1; exponent /= 10)
		*--to = (char)('0' + exponent % 10);
	n += 1 + EXPONENT_DIGITS;
	if (!is_negative)
		return n;
	for (size_t i = 1; i < n; i++)
		out[i] = (char)('0' + '9' - out[i]);
	out[n] = '~'; /* among negative numbers, those with more digits are smaller */
	return n + 1;
}

size_t sort_key(struct slice value, char *out)
{
	enum json_kind kind = json_kind(value);
	struct arena a = {.room = NULL};
	struct slice text;

	if (kind == KIND_INTEGER || kind == KIND_REAL)
		return number_key(value, out);
	if (kind != KIND_STRING)
		return 0;
	text = json_text(value, &a);
	*out = '3';
	memcpy(out + 1, text.at, text.len);
	arena_clear(&a);
	return 1 + text.len;
}
