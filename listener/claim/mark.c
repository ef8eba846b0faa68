/* mark.c writes and parses marks. claim.c decides what a mark means for an event. */
#include "claim/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_LEN  5
#define MINUTE_AT 10 /* where the minute may begin, counted from the dot before the epoch */

size_t mark_write(const struct mark *mark, char *text)
{
	size_t n = (size_t)snprintf(text, MARK_TEXT_SIZE, "%s%" PRId64, mark->is_dead ? MARK_DEAD_HEAD : MARK_DONE_HEAD,
				    mark->ms);

	if (mark->epoch)
		n += (size_t)snprintf(text + n, MARK_TEXT_SIZE - n, ".%08" PRIx32, mark->epoch);
	if (!mark->is_dead && mark->epoch && mark->minute)
		n += (size_t)snprintf(text + n, MARK_TEXT_SIZE - n, "/m%08" PRIx32, mark->minute);
	if (mark->is_dead && mark->digest)
		n += (size_t)snprintf(text + n, MARK_TEXT_SIZE - n, "/%016" PRIx64, mark->digest);
	return n;
}

/* The value of a hex digit plus one; 0 for any other byte. */
static const unsigned char hex_digits[256] = {
	['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
	['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

/* Reads `mark`, then this many hex digits, up to the end of the value or a slash. Else sets *number to 0. */
static void read_hex(const char *at, size_t len, char mark, size_t digits, uint64_t *number)
{
	uint64_t read = 0;

	*number = 0;
	if (len <= digits || at[0] != mark || (len > digits + 1 && at[digits + 1] != '/'))
		return;
	for (size_t i = 1; i <= digits; i++) {
		unsigned int digit = hex_digits[(unsigned char)at[i]];

		if (!digit)
			return;
		read = read << 4 | (digit - 1);
	}
	*number = read;
}

/* Returns the index of the first c at or after at; at if there is none. */
static size_t find(const char *value, size_t at, size_t len, char c)
{
	const char *found = memchr(value + at, c, len - at);

	return found ? (size_t)(found - value) : at;
}

bool mark_read(struct mark *mark, const char *value, size_t len)
{
	bool is_done = len >= HEAD_LEN && memcmp(value, MARK_DONE_HEAD, HEAD_LEN) == 0;
	size_t at = HEAD_LEN;
	uint64_t epoch, minute;

	if (!is_done && (len < HEAD_LEN || memcmp(value, MARK_DEAD_HEAD, HEAD_LEN) != 0))
		return false;
	*mark = (struct mark){.is_dead = !is_done};
	at = find(value, at, len, '.');
	read_hex(value + at, len - at, '.', 8, &epoch);
	mark->epoch = (uint32_t)epoch;
	if (is_done) {
		at += at + MINUTE_AT < len ? MINUTE_AT : 0;
		read_hex(value + at, len - at, 'm', 8, &minute);
		mark->minute = (uint32_t)minute;
		return true;
	}
	at = find(value, at, len, '/');
	read_hex(value + at, len - at, '/', 16, &mark->digest);
	return true;
}
