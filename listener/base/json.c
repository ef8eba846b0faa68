/* json.c reads JSON in place: where values begin and end. json_scan.c validates the text. */
#include "base/json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* --- where values are --- */

enum json_kind json_kind(struct slice v)
{
	if (!v.at)
		return KIND_MISSING;
	switch (*v.at) {
	case '{':
		return KIND_OBJECT;
	case '[':
		return KIND_ARRAY;
	case '"':
		return KIND_STRING;
	case 't':
		return KIND_TRUE;
	case 'f':
		return KIND_FALSE;
	case 'n':
		return KIND_NULL;
	default:
		for (size_t i = 1; i < v.len; i++)
			if (v.at[i] < '0' || v.at[i] > '9')
				return KIND_REAL;
		return KIND_INTEGER;
	}
}

const char *json_skip_string(const char *at, bool *has_escape)
{
	*has_escape = false;
	for (at++; *at != '"'; at++)
		if (*at == '\\') {
			*has_escape = true;
			at++;
		}
	return at + 1;
}

/* Returns the end of a string; at is after the opening quote. An odd number of backslashes escapes a quote. */
static const char *end_string(const char *at)
{
	for (;;) {
		const char *quote = rawmemchr(at, '"'), *before = quote;

		while (before[-1] == '\\')
			before--;
		at = quote + 1;
		if ((quote - before) % 2 == 0)
			return at;
	}
}

/* How each byte outside strings changes the depth. 2: a string begins. */
static const signed char turns[256] = {['{'] = 1, ['['] = 1, ['}'] = -1, [']'] = -1, ['"'] = 2};

static const char *skip_container(const char *at)
{
	int depth = 0;

	for (;;) {
		signed char turn = turns[(unsigned char)*at++];

		if (!turn)
			continue;
		if (turn == 2) {
			at = end_string(at);
			continue;
		}
		depth += turn;
		if (!depth)
			return at;
	}
}

const char *json_skip(const char *at, const char *end)
{
	if (*at == '"')
		return end_string(at + 1);
	if (*at == '{' || *at == '[')
		return skip_container(at);
	while (at < end && *at != ',' && *at != '}' && *at != ']' && !is_blank(*at))
		at++;
	return at;
}

const char *json_next(const char *at, const char *end)
{
	while (at < end && (is_blank(*at) || *at == ',' || *at == ':'))
		at++;
	return at;
}

struct json_walk json_walk(struct slice v)
{
	struct json_walk w = {.at = v.at, .end = v.at ? v.at + v.len : NULL};
	enum json_kind kind = json_kind(v);

	w.is_object = kind == KIND_OBJECT;
	w.at = w.is_object || kind == KIND_ARRAY ? v.at + 1 : w.end;
	return w;
}

bool json_walk_next(struct json_walk *w)
{
	w->at = json_next(w->at, w->end);
	if (w->at >= w->end || *w->at == '}' || *w->at == ']')
		return false;
	if (w->is_object) {
		const char *name = w->at;

		w->at = json_skip_string(name, &w->has_escape);
		w->name = (struct slice){name + 1, (size_t)(w->at - name - 2)};
		w->at = json_next(w->at, w->end);
	}
	w->value.at = w->at;
	w->at = json_skip(w->at, w->end);
	w->value.len = (size_t)(w->at - w->value.at);
	return true;
}

/* --- pointers --- */

/* An array index is digits without a leading zero (RFC 6901, section 4). */
static long step_index(const char *step)
{
	size_t digits = strspn(step, "0123456789");

	if (!digits || step[digits] || digits > 9 || (*step == '0' && digits > 1))
		return -1;
	return strtol(step, NULL, 10);
}

static bool unescape_step(char *step)
{
	char *out = step;

	for (; *step; step++) {
		if (*step == '~') {
			if (step[1] != '0' && step[1] != '1')
				return false;
			*out++ = *++step == '1' ? '/' : '~';
		} else {
			*out++ = *step;
		}
	}
	*out = '\0';
	return true;
}

int json_steps(const char *pointer, struct json_step *steps, int most)
{
	int count = 0;

	for (; *pointer == '/' && count < most; count++) {
		struct json_step *step = &steps[count];
		size_t n = strcspn(pointer + 1, "/");

		step->name = memory_strndup(pointer + 1, n);
		if (!unescape_step(step->name)) {
			json_steps_free(steps, count + 1);
			return -1;
		}
		step->len = strlen(step->name);
		step->index = step_index(step->name);
		pointer += n + 1;
	}
	if (!*pointer)
		return count;
	json_steps_free(steps, count);
	return -1;
}

void json_steps_free(struct json_step *steps, int count)
{
	while (count > 0)
		free(steps[--count].name);
}

bool json_is_name(struct slice raw, bool has_escape, const char *name, size_t len)
{
	struct arena a = {.room = NULL};
	struct slice text = {raw.at - 1, raw.len + 2};
	bool is_same;

	if (!has_escape)
		return raw.len == len && memcmp(raw.at, name, len) == 0;
	if (raw.len < len)
		return false;
	text = json_text(text, &a);
	is_same = text.len == len && memcmp(text.at, name, len) == 0;
	arena_clear(&a);
	return is_same;
}

struct slice json_child(struct slice value, const struct json_step *step)
{
	struct json_walk w = json_walk(value);
	struct slice found = {NULL, 0};

	for (long i = 0; json_walk_next(&w); i++) {
		if (w.is_object ? json_is_name(w.name, w.has_escape, step->name, step->len) : i == step->index)
			found = w.value;
		if (found.at && !w.is_object)
			break;
	}
	return found;
}

struct slice json_find(struct slice document, const char *pointer)
{
	struct json_step steps[JSON_STEPS_MAX];
	int count = json_steps(pointer, steps, JSON_STEPS_MAX);

	for (int i = 0; i < count && document.at; i++)
		document = json_child(document, &steps[i]);
	json_steps_free(steps, count);
	return count < 0 ? (struct slice){NULL, 0} : document;
}

/* --- strings --- */

static unsigned read_unit(const char *hex4)
{
	char digits[5] = {hex4[0], hex4[1], hex4[2], hex4[3], '\0'};

	return (unsigned)strtol(digits, NULL, 16);
}

bool json_has_half_pair(const char *text, size_t len)
{
	const char *escape = memchr(text, '\\', len);

	for (size_t i = escape ? (size_t)(escape - text) : len; i + 1 < len; i++) {
		unsigned unit;

		if (text[i] != '\\')
			continue;
		if (text[++i] != 'u')
			continue;
		unit = read_unit(text + i + 1);
		if (unit < 0xd800 || unit > 0xdfff)
			continue;
		if (unit > 0xdbff || i + 10 >= len || text[i + 5] != '\\' || text[i + 6] != 'u')
			return true;
		unit = read_unit(text + i + 7);
		if (unit < 0xdc00 || unit > 0xdfff)
			return true;
		i += 10;
	}
	return false;
}

static char *put_utf8(char *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*out++ = (char)(0x80 | (c & 0x3f));
	return out;
}

/* Decodes the escape whose backslash is at `at`. Returns what follows it. */
static const char *read_escape(const char *at, const char *end, char **out)
{
	static const char letters[] = "b\bf\fn\nr\rt\t";
	const char *letter = at[1] == 'u' ? NULL : strchr(letters, at[1]);
	unsigned c, low;

	if (at[1] != 'u') {
		**out = at[1];
		if (letter)
			**out = letter[1];
		++*out;
		return at + 2;
	}
	c = read_unit(at + 2);
	at += 6;
	if (c >= 0xd800 && c < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
		low = read_unit(at + 2);
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			at += 6;
		}
	}
	*out = put_utf8(*out, c);
	return at;
}

struct slice json_text(struct slice string, struct arena *a)
{
	const char *at = string.at + 1, *end = string.at + string.len - 1;
	char *room, *out;

	if (!memchr(at, '\\', (size_t)(end - at)))
		return (struct slice){at, (size_t)(end - at)};
	room = out = arena_alloc(a, string.len);
	while (at < end) {
		const char *escape = memchr(at, '\\', (size_t)(end - at));
		size_t plain = (size_t)((escape ? escape : end) - at);

		memcpy(out, at, plain);
		out += plain;
		at += plain;
		if (escape)
			at = read_escape(at, end, &out);
	}
	return (struct slice){room, (size_t)(out - room)};
}

/* --- numbers --- */

bool json_to_integer(struct slice v, __int128 *number)
{
	bool is_negative = v.len && *v.at == '-';

	if (json_kind(v) != KIND_INTEGER || v.len - is_negative > 38)
		return false;
	*number = 0;
	for (size_t i = is_negative; i < v.len; i++)
		*number = *number * 10 + (v.at[i] - '0');
	if (is_negative)
		*number = -*number;
	return true;
}

double json_to_real(struct slice v)
{
	char room[64], *text = v.len < sizeof(room) ? room : memory_alloc(v.len + 1);
	double number;

	memcpy(text, v.at, v.len);
	text[v.len] = '\0';
	number = strtod(text, NULL);
	if (text != room)
		free(text);
	return number;
}

long json_read_exponent(const char **at, const char *end, long most)
{
	long exponent = 0;
	bool is_negative;

	if (*at == end || (**at | 0x20) != 'e')
		return 0;
	++*at;
	is_negative = **at == '-';
	*at += **at == '-' || **at == '+';
	for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
		if (exponent < most)
			exponent = exponent * 10 + (**at - '0');
	return is_negative ? -exponent : exponent;
}
