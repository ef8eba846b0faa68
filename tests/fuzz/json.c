/* json.c owns the second opinion: one function per rule of the grammar, each of which returns where
 * its part of the text ends, or NULL if it is none. */
#include "json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

struct walk {
	const char *end;
	struct json_facts facts;
};

static const char *skip_value(struct walk *w, const char *at, int depth);

static const char *skip_blanks(const struct walk *w, const char *at)
{
	while (at < w->end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
		at++;
	return at;
}

static bool is_next(const struct walk *w, const char *at, char c)
{
	return at < w->end && *at == c;
}

static bool is_digit(const struct walk *w, const char *at)
{
	return at < w->end && *at >= '0' && *at <= '9';
}

static const char *skip_digits(const struct walk *w, const char *at)
{
	if (!is_digit(w, at))
		return NULL;
	while (is_digit(w, at))
		at++;
	return at;
}

static void note_number(struct walk *w, const char *begin, const char *end)
{
	char *text = strndup(begin, (size_t)(end - begin));

	if (isinf(strtod(text, NULL)))
		w->facts.has_huge_number = true;
	free(text);
}

static const char *skip_number(struct walk *w, const char *at)
{
	const char *begin = at;

	if (is_next(w, at, '-'))
		at++;
	if (is_next(w, at, '0'))
		at++;
	else if (!(at = skip_digits(w, at)))
		return NULL;
	if (is_next(w, at, '.') && !(at = skip_digits(w, at + 1)))
		return NULL;
	if (is_next(w, at, 'e') || is_next(w, at, 'E')) {
		at++;
		if (is_next(w, at, '+') || is_next(w, at, '-'))
			at++;
		if (!(at = skip_digits(w, at)))
			return NULL;
	}
	note_number(w, begin, at);
	return at;
}

/* The four digits of a \u escape; -1 if they are none. */
static long read_unit(const struct walk *w, const char *at)
{
	long unit = 0;

	if (w->end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef";
		const char *digit = at[i] ? strchr(digits, at[i] | 0x20) : NULL;

		if (!digit || at[i] < '0')
			return -1;
		unit = unit * 16 + (digit - digits);
	}
	return unit;
}

/* What follows \u; a low surrogate belongs to the high one before it. */
static const char *skip_unit(struct walk *w, const char *at, bool is_name)
{
	long unit = read_unit(w, at), low = -1;

	if (unit < 0)
		return NULL;
	at += 4;
	if (unit == 0 && is_name)
		w->facts.has_nul_in_name = true;
	if (unit < 0xd800 || unit > 0xdfff)
		return at;
	if (unit <= 0xdbff && w->end - at >= 6 && at[0] == '\\' && at[1] == 'u')
		low = read_unit(w, at + 2);
	if (low >= 0xdc00 && low <= 0xdfff)
		return at + 6;
	w->facts.has_half_pair = true;
	return at;
}

static const char *skip_string(struct walk *w, const char *at, bool is_name)
{
	if (!is_next(w, at, '"'))
		return NULL;
	for (at++; at && at < w->end && *at != '"';) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at++ != '\\')
			continue;
		if (is_next(w, at, 'u'))
			at = skip_unit(w, at + 1, is_name);
		else if (at < w->end && *at && strchr("\"\\/bfnrt", *at))
			at++;
		else
			return NULL;
	}
	return at && at < w->end ? at + 1 : NULL;
}

static const char *skip_word(const struct walk *w, const char *at, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(w->end - at) >= n && memcmp(at, word, n) == 0 ? at + n : NULL;
}

/* One member or element, blanks around it; at is behind the bracket or comma. */
static const char *skip_item(struct walk *w, const char *at, bool is_object, int depth)
{
	at = skip_blanks(w, at);
	if (is_object) {
		if (!(at = skip_string(w, at, true)))
			return NULL;
		at = skip_blanks(w, at);
		if (!is_next(w, at, ':'))
			return NULL;
		at = skip_blanks(w, at + 1);
	}
	at = skip_value(w, at, depth);
	return at ? skip_blanks(w, at) : NULL;
}

static const char *skip_container(struct walk *w, const char *at, int depth)
{
	bool is_object = *at == '{';
	char close = is_object ? '}' : ']';

	if (depth > w->facts.containers)
		w->facts.containers = depth;
	at = skip_blanks(w, at + 1);
	if (is_next(w, at, close))
		return at + 1;
	for (;;) {
		at = skip_item(w, at, is_object, depth + 1);
		if (!at)
			return NULL;
		if (is_next(w, at, close))
			return at + 1;
		if (!is_next(w, at, ','))
			return NULL;
		at++;
	}
}

/* depth is 1 for the whole text. */
static const char *skip_value(struct walk *w, const char *at, int depth)
{
	if (at == w->end)
		return NULL;
	if (depth > w->facts.values)
		w->facts.values = depth;
	switch (*at) {
	case '{':
	case '[':
		return skip_container(w, at, depth);
	case '"':
		return skip_string(w, at, false);
	case 't':
		return skip_word(w, at, "true");
	case 'f':
		return skip_word(w, at, "false");
	case 'n':
		return skip_word(w, at, "null");
	default:
		return skip_number(w, at);
	}
}

struct json_facts oracle_examine(const char *text, size_t len)
{
	struct walk w = {.end = text + len};
	const char *at = skip_value(&w, skip_blanks(&w, text), 1);

	w.facts.is_json = at && skip_blanks(&w, at) == w.end && !u8_check((const uint8_t *)text, len);
	return w.facts;
}

char *oracle_decode(struct span quoted, size_t *len)
{
	json_t *value = json_loadb(quoted.at, quoted.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	char *text = NULL;

	if (value) {
		*len = json_string_length(value);
		text = malloc(*len + 1);
		memcpy(text, json_string_value(value), *len + 1);
	}
	json_decref(value);
	return text;
}

bool oracle_is_step(const char *token, size_t n, const char *key, size_t key_len)
{
	const char *end = token + n, *key_end = key + key_len;

	for (; token < end; token++, key++) {
		char c = *token;

		if (c == '~')
			c = *++token == '1' ? '/' : '~';
		if (key == key_end || *key != c)
			return false;
	}
	return key == key_end;
}

static bool is_name(struct span quoted, const char *token, size_t n)
{
	size_t len;
	char *name = oracle_decode(quoted, &len);
	bool is_same = name && oracle_is_step(token, n, name, len);

	free(name);
	return is_same;
}

static bool is_index(size_t index, const char *token, size_t n)
{
	char text[30];

	return (size_t)snprintf(text, sizeof(text), "%zu", index) == n && memcmp(text, token, n) == 0;
}

/* What the reference token names in the container, which is JSON: how many, and the last of them. */
static int find_step(struct span container, const char *token, size_t n, struct span *value)
{
	struct walk w = {.end = container.at + container.len};
	bool is_object = *container.at == '{';
	int found = 0;
	size_t index = 0;

	for (const char *at = skip_blanks(&w, container.at + 1); *at != '}' && *at != ']'; index++) {
		const char *begin = at = skip_blanks(&w, at + (*at == ','));
		bool is_it = !is_object && is_index(index, token, n);

		if (is_object) {
			at = skip_string(&w, at, true);
			is_it = is_name((struct span){begin, (size_t)(at - begin)}, token, n);
			begin = at = skip_blanks(&w, skip_blanks(&w, at) + 1);
		}
		at = skip_value(&w, at, 1);
		if (is_it) {
			*value = (struct span){begin, (size_t)(at - begin)};
			found++;
		}
		at = skip_blanks(&w, at);
	}
	return found;
}

enum json_found oracle_find(struct span text, const char *pointer, struct span *value)
{
	struct walk w = {.end = text.at + text.len};
	const char *begin = skip_blanks(&w, text.at);

	*value = (struct span){begin, (size_t)(skip_value(&w, begin, 1) - begin)};
	while (*pointer) {
		size_t n = strcspn(pointer + 1, "/");
		int found;

		if (*value->at != '{' && *value->at != '[')
			return JSON_ABSENT;
		found = find_step(*value, pointer + 1, n, value);
		if (found != 1)
			return found ? JSON_TWICE : JSON_ABSENT;
		pointer += n + 1;
	}
	return JSON_FOUND;
}
