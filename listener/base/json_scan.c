/* json_scan.c owns the quick way to know that a text is JSON: the grammar of RFC 8259, without what yajl does for each
 * token beside it. What this file does not pass may be JSON all the same; then yajl decides, and says what is wrong. */
#include "base/json_scan.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"

/* Containers around the place at hand; a bit of kinds is set for an object. */
struct nesting {
	unsigned int depth;
	uint8_t kinds[JSON_DEPTH_MAX / 8];
};

static bool is_object(const struct nesting *n)
{
	return n->kinds[(n->depth - 1) / 8] >> (n->depth - 1) % 8 & 1;
}

static bool push(struct nesting *n, bool is_map)
{
	uint8_t bit = (uint8_t)(1 << n->depth % 8);

	if (n->depth == JSON_DEPTH_MAX)
		return false;
	if (n->depth % 8 == 0)
		n->kinds[n->depth / 8] = is_map;
	else if (is_map)
		n->kinds[n->depth / 8] |= bit;
	else
		n->kinds[n->depth / 8] &= (uint8_t)~bit;
	n->depth++;
	return true;
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
		at++;
	return at;
}

/* --- strings --- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The high bit of each byte that ends a plain run: a quote, a backslash or a control character. Above the lowest one
 * others may be wrong. */
static uint64_t find_special(uint64_t eight)
{
	uint64_t quote = eight ^ EACH('"'), backslash = eight ^ EACH('\\');

	return (((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash) | ((eight - EACH(' ')) & ~eight)) &
	       EACH(0x80);
}

static const char *skip_plain(const char *at, const char *end)
{
	uint64_t eight, special;

	for (; end - at >= 8; at += 8) {
		memcpy(&eight, at, 8);
		special = find_special(le64toh(eight));
		if (special)
			return at + __builtin_ctzll(special) / 8;
	}
	while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= ' ')
		at++;
	return at;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* at is behind the backslash. */
static const char *skip_escape(const char *at, const char *end)
{
	if (at == end || !*at || !strchr("\"\\/bfnrtu", *at))
		return NULL;
	if (*at != 'u')
		return at + 1;
	if (end - at < 5 || !is_hex(at[1]) || !is_hex(at[2]) || !is_hex(at[3]) || !is_hex(at[4]))
		return NULL;
	return at + 5;
}

/* at is behind the first quote; so is the result behind the last. NULL: it does not end, or is not one. */
static const char *skip_string(const char *at, const char *end)
{
	for (;;) {
		at = skip_plain(at, end);
		if (at == end)
			return NULL;
		if (*at == '"')
			return at + 1;
		if (*at != '\\')
			return NULL;
		at = skip_escape(at + 1, end);
		if (!at)
			return NULL;
	}
}

/* --- other scalars --- */

static const char *skip_digits(const char *at, const char *end)
{
	const char *begin = at;

	while (at < end && *at >= '0' && *at <= '9')
		at++;
	return at > begin ? at : NULL;
}

static const char *skip_exponent(const char *at, const char *end)
{
	at++;
	if (at < end && (*at == '+' || *at == '-'))
		at++;
	return skip_digits(at, end);
}

static const char *skip_number(const char *at, const char *end)
{
	if (*at == '-' && ++at == end)
		return NULL;
	at = *at == '0' ? at + 1 : skip_digits(at, end);
	if (at && at < end && *at == '.')
		at = skip_digits(at + 1, end);
	if (at && at < end && (*at | 0x20) == 'e')
		at = skip_exponent(at, end);
	return at;
}

static const char *skip_word(const char *at, const char *end, const char *word, size_t len)
{
	return (size_t)(end - at) >= len && memcmp(at, word, len) == 0 ? at + len : NULL;
}

static const char *skip_scalar(const char *at, const char *end)
{
	switch (*at) {
	case '"':
		return skip_string(at + 1, end);
	case 't':
		return skip_word(at, end, "true", 4);
	case 'f':
		return skip_word(at, end, "false", 5);
	case 'n':
		return skip_word(at, end, "null", 4);
	default:
		return skip_number(at, end);
	}
}

/* --- containers --- */

/* A member's name with its colon. */
static const char *skip_name(const char *at, const char *end)
{
	if (at == end || *at != '"')
		return NULL;
	at = skip_string(at + 1, end);
	if (!at)
		return NULL;
	at = skip_blanks(at, end);
	return at < end && *at == ':' ? skip_blanks(at + 1, end) : NULL;
}

/* A container begins at `at`: where its first value begins, or behind its end if it has none, as *is_over says. */
static const char *enter(const char *at, const char *end, struct nesting *n, bool *is_over)
{
	bool is_map = *at == '{';

	at = skip_blanks(at + 1, end);
	*is_over = at < end && *at == (is_map ? '}' : ']');
	if (*is_over)
		return n->depth < JSON_DEPTH_MAX ? at + 1 : NULL;
	if (!push(n, is_map))
		return NULL;
	return is_map ? skip_name(at, end) : at;
}

/* Behind a value: where the next one begins, or the end of the whole when n->depth is 0. */
static const char *leave(const char *at, const char *end, struct nesting *n)
{
	while (n->depth) {
		at = skip_blanks(at, end);
		if (at == end)
			return NULL;
		if (*at == ',') {
			at = skip_blanks(at + 1, end);
			return is_object(n) ? skip_name(at, end) : at;
		}
		if (*at++ != (is_object(n) ? '}' : ']'))
			return NULL;
		n->depth--;
	}
	return at;
}

bool json_scan(const char *text, size_t len, struct slice *value)
{
	const char *end = text + len, *at = skip_blanks(text, end), *begin = at;
	struct nesting n;

	n.depth = 0;
	do {
		bool is_over = true;

		if (at == end)
			return false;
		at = *at == '{' || *at == '[' ? enter(at, end, &n, &is_over) : skip_scalar(at, end);
		if (at && is_over)
			at = leave(at, end, &n);
		if (!at)
			return false;
	} while (n.depth);
	*value = (struct slice){begin, (size_t)(at - begin)};
	return skip_blanks(at, end) == end;
}
