/* json_scan.c checks the grammar of RFC 8259. It says whether a text is JSON, and if not, what is wrong and where. */
#include <endian.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

struct scan {
	const char *end;
	const char *wrong; /* set when a function returns NULL: what is wrong, and where */
	const char *wrong_at;
	unsigned int depth;                /* open containers */
	uint8_t kinds[JSON_DEPTH_MAX / 8]; /* a bit for each container, set for an object */
};

static const char *refuse(struct scan *s, const char *at, const char *why)
{
	s->wrong = at == s->end ? "unexpected end" : why;
	s->wrong_at = at;
	return NULL;
}

static bool is_object(const struct scan *s)
{
	return s->kinds[(s->depth - 1) / 8] >> (s->depth - 1) % 8 & 1;
}

static void push(struct scan *s, bool is_map)
{
	uint8_t bit = (uint8_t)(1 << s->depth % 8);

	if (s->depth % 8 == 0)
		s->kinds[s->depth / 8] = is_map;
	else if (is_map)
		s->kinds[s->depth / 8] |= bit;
	else
		s->kinds[s->depth / 8] &= (uint8_t)~bit;
	s->depth++;
}

const char *json_skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
		at++;
	return at;
}

/* --- strings --- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Sets the high bit of each byte that ends a plain run: quote, backslash, control. Only the lowest bit is reliable. */
static uint64_t find_special(uint64_t eight)
{
	uint64_t quote = eight ^ EACH('"'), backslash = eight ^ EACH('\\');

	return (((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash) | ((eight - EACH(' ')) & ~eight)) &
	       EACH(0x80);
}

#ifdef __SSE2__
/* The same for 16 bytes: sets a bit for each. */
static int find_special16(__m128i bytes)
{
	__m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
		backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')),
		control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);

	return _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control));
}
#endif

static inline const char *skip_plain(const char *at, const char *end)
{
	uint64_t eight, special;

#ifdef __SSE2__
	for (; end - at >= 16; at += 16) {
		int found = find_special16(_mm_loadu_si128((const void *)at));

		if (found)
			return at + __builtin_ctz((unsigned int)found);
	}
#endif
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

/* at is after the backslash. Returns the end of the escape, or NULL if it is malformed. */
static const char *skip_escape(struct scan *s, const char *at)
{
	if (at == s->end || !*at || !strchr("\"\\/bfnrtu", *at))
		return refuse(s, at, "invalid escape");
	if (*at != 'u')
		return at + 1;
	for (int i = 1; i <= 4; i++)
		if (s->end - at <= i || !is_hex(at[i]))
			return refuse(s, at + i, "expected a hexadecimal digit");
	return at + 5;
}

/* at is the first byte that is not plain. Rare: inlined, it would slow down strings without escapes. */
__attribute__((noinline)) static const char *skip_escaped(struct scan *s, const char *at)
{
	while (at && at < s->end && *at == '\\') {
		at = skip_escape(s, at + 1);
		if (at)
			at = skip_plain(at, s->end);
	}
	if (!at)
		return NULL;
	return at < s->end && *at == '"' ? at + 1 : refuse(s, at, "control character in a string");
}

/* at is after the opening quote. Returns the byte after the closing one, or NULL if the string is malformed. */
static const char *skip_string(struct scan *s, const char *at)
{
	at = skip_plain(at, s->end);
	return at < s->end && *at == '"' ? at + 1 : skip_escaped(s, at);
}

/* --- other scalars --- */

static const char *skip_digits(struct scan *s, const char *at)
{
	const char *begin = at;

	while (at < s->end && *at >= '0' && *at <= '9')
		at++;
	return at > begin ? at : refuse(s, at, "expected a digit");
}

static const char *skip_exponent(struct scan *s, const char *at)
{
	at++;
	if (at < s->end && (*at == '+' || *at == '-'))
		at++;
	return skip_digits(s, at);
}

static const char *skip_number(struct scan *s, const char *at)
{
	if (*at == '-')
		at++;
	at = at < s->end && *at == '0' ? at + 1 : skip_digits(s, at);
	if (at && at < s->end && *at == '.')
		at = skip_digits(s, at + 1);
	if (at && at < s->end && (*at | 0x20) == 'e')
		at = skip_exponent(s, at);
	return at;
}

static const char *skip_word(struct scan *s, const char *at, const char *word, size_t len)
{
	if ((size_t)(s->end - at) >= len && memcmp(at, word, len) == 0)
		return at + len;
	return refuse(s, at, "expected a value");
}

static const char *skip_scalar(struct scan *s, const char *at)
{
	switch (*at) {
	case '"':
		return skip_string(s, at + 1);
	case 't':
		return skip_word(s, at, "true", 4);
	case 'f':
		return skip_word(s, at, "false", 5);
	case 'n':
		return skip_word(s, at, "null", 4);
	default:
		if (*at != '-' && (*at < '0' || *at > '9'))
			return refuse(s, at, "expected a value");
		return skip_number(s, at);
	}
}

/* --- containers --- */

/* Skips a member's name and colon. */
static const char *skip_name(struct scan *s, const char *at)
{
	const char *end = s->end;

	if (at == end || *at != '"')
		return refuse(s, at, "expected a member's name in quotes");
	at = skip_string(s, at + 1);
	if (!at)
		return NULL;
	at = json_skip_blanks(at, end);
	return at < end && *at == ':' ? json_skip_blanks(at + 1, end) : refuse(s, at, "expected a colon");
}

/* Enters the container at `at`. Returns its first value; or, if it is empty, sets *is_over and returns its end. */
static const char *enter(struct scan *s, const char *at, bool *is_over)
{
	bool is_map = *at == '{';

	*is_over = false;
	if (s->depth == JSON_DEPTH_MAX)
		return refuse(s, at, NULL);
	at = json_skip_blanks(at + 1, s->end);
	*is_over = at < s->end && *at == (is_map ? '}' : ']');
	if (*is_over)
		return at + 1;
	push(s, is_map);
	return is_map ? skip_name(s, at) : at;
}

/* at is after a value. Returns the next value, or the end of the outermost one when s->depth becomes 0. */
static const char *leave(struct scan *s, const char *at)
{
	while (s->depth) {
		at = json_skip_blanks(at, s->end);
		if (at < s->end && *at == ',') {
			at = json_skip_blanks(at + 1, s->end);
			return is_object(s) ? skip_name(s, at) : at;
		}
		if (at == s->end || *at != (is_object(s) ? '}' : ']'))
			return refuse(s, at, is_object(s) ? "expected a comma or }" : "expected a comma or ]");
		at++;
		s->depth--;
	}
	return at;
}

/* Returns what follows the value that begins at `at`. */
static const char *skip_value(struct scan *s, const char *at)
{
	do {
		bool is_over = true;

		if (at == s->end)
			return refuse(s, at, NULL);
		at = *at == '{' || *at == '[' ? enter(s, at, &is_over) : skip_scalar(s, at);
		if (at && is_over)
			at = leave(s, at);
	} while (at && s->depth);
	return at;
}

const char *json_check(const char *text, size_t len, struct slice *value)
{
	static char sentence[100];
	struct scan s;
	const char *begin, *behind;

	if (!is_utf8(text, len))
		return "the message is not valid UTF-8";
	s.end = text + len;
	s.depth = 0;
	begin = json_skip_blanks(text, s.end);
	behind = skip_value(&s, begin);
	if (behind) {
		*value = (struct slice){begin, (size_t)(behind - begin)};
		behind = json_skip_blanks(behind, s.end);
		if (behind == s.end)
			return NULL;
		refuse(&s, behind, "something follows the message");
	}
	if (!s.wrong)
		return "the message is nested too deeply (more than 2048 levels)";
	snprintf(sentence, sizeof(sentence), "not JSON: %s at byte %td", s.wrong, s.wrong_at - text + 1);
	return sentence;
}
