/* mark.c owns how a mark is written and read. What a mark means for an event is claim.c's business. */
#include "road/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_LEN 5

size_t mark_write(const struct mark *mark, char *text)
{
	size_t n = (size_t)snprintf(text, MARK_TEXT_SIZE, "%s%" PRId64, mark->is_dead ? MARK_DEAD_HEAD : MARK_DONE_HEAD,
				    mark->ms);

	if (mark->epoch)
		n += (size_t)snprintf(text + n, MARK_TEXT_SIZE - n, ".%08" PRIx32, mark->epoch);
	if (mark->is_dead && mark->digest)
		n += (size_t)snprintf(text + n, MARK_TEXT_SIZE - n, "/%016" PRIx64, mark->digest);
	return n;
}

/* Not strtoll, which knows of signs, bases and locales, for each copy. */
static int64_t read_ms(const char **at, const char *end)
{
	int64_t ms = 0;

	for (int n = 0; n < 16 && *at < end && **at >= '0' && **at <= '9'; n++)
		ms = ms * 10 + (*(*at)++ - '0');
	return ms;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* mark, then so many hex digits, behind which the value ends or a slash follows: else 0, and *at stays. */
static uint64_t read_hex(const char **at, const char *end, char mark, int digits)
{
	const char *c = *at + 1;
	uint64_t number = 0;

	if (end - *at <= digits || **at != mark)
		return 0;
	for (int n = 0; n < digits; n++, c++) {
		int digit = hex_digit(*c);

		if (digit < 0)
			return 0;
		number = number << 4 | (uint64_t)digit;
	}
	if (c < end && *c != '/')
		return 0;
	*at = c;
	return number;
}

bool mark_read(struct mark *mark, const char *value, size_t len)
{
	const char *at = value + HEAD_LEN, *end = value + len;
	bool is_done = len >= HEAD_LEN && memcmp(value, MARK_DONE_HEAD, HEAD_LEN) == 0;

	if (!is_done && (len < HEAD_LEN || memcmp(value, MARK_DEAD_HEAD, HEAD_LEN) != 0))
		return false;
	mark->is_dead = !is_done;
	mark->ms = read_ms(&at, end);
	mark->epoch = (uint32_t)read_hex(&at, end, '.', 8);
	mark->digest = mark->is_dead ? read_hex(&at, end, '/', 16) : 0;
	return true;
}
