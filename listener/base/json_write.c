/* json_write.c writes numbers and escapes as Python's json.dumps() does, so that other programs can check hashes. */
#include "base/json_write.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <unistr.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/sort_key.h"

struct writer {
	struct bytes *out;
	bool is_plain;
	int depth;
	struct json_written written;
	struct arena arena; /* for decoded names and strings */
};

struct member {
	struct slice name;
	struct slice value;
	size_t place;
};

static void write_value(struct writer *w, struct slice v);

/* --- strings --- */

static const char *short_escape(unsigned c)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	case '\b':
		return "\\b";
	case '\f':
		return "\\f";
	default:
		return NULL;
	}
}

static void write_unit(struct bytes *out, unsigned unit)
{
	char text[12];

	snprintf(text, sizeof(text), "\\u%04x", unit);
	bytes_add_text(out, text);
}

/* Writes DEL or a character outside of ASCII as one or two escapes. Returns its length in bytes. */
static size_t write_escaped(struct bytes *out, const char *at, size_t len)
{
	ucs4_t c;
	int n = u8_mbtouc(&c, (const uint8_t *)at, len);

	if (c < 0x10000) {
		write_unit(out, c);
	} else {
		write_unit(out, 0xd800 + ((c - 0x10000) >> 10));
		write_unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	return (size_t)n;
}

static void write_text(struct bytes *out, struct slice text, bool is_ascii)
{
	bytes_add_byte(out, '"');
	for (size_t i = 0; i < text.len;) {
		unsigned char c = (unsigned char)text.at[i];
		const char *escape = short_escape(c);

		if (is_ascii && c >= 0x7f) {
			i += write_escaped(out, text.at + i, text.len - i);
			continue;
		}
		if (escape)
			bytes_add_text(out, escape);
		else if (c < ' ')
			write_unit(out, c);
		else
			bytes_add_byte(out, (char)c);
		i++;
	}
	bytes_add_byte(out, '"');
}

void json_write_string(struct bytes *out, const char *text, size_t len)
{
	write_text(out, (struct slice){text, len}, false);
}

/* --- numbers --- */

/* Writes digits with their point. The first digit stands for 10^exponent. */
static void place_point(struct bytes *out, const char *digits, int count, int exponent)
{
	char text[16];

	if (exponent < -4 || exponent >= 16) {
		bytes_add(out, digits, 1);
		bytes_add(out, ".", count > 1);
		bytes_add(out, digits + 1, (size_t)count - 1);
		snprintf(text, sizeof(text), "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
		bytes_add_text(out, text);
		return;
	}
	if (exponent < 0) {
		bytes_add(out, "0.000", (size_t)(1 - exponent));
		bytes_add(out, digits, (size_t)count);
		return;
	}
	for (int i = 0; i < count || i <= exponent + 1; i++) {
		bytes_add(out, ".", i == exponent + 1);
		bytes_add(out, i < count ? &digits[i] : "0", 1);
	}
}

static void write_real(struct bytes *out, double number)
{
	char text[40], digits[20] = "";
	int precision = 0, count = 0;

	if (signbit(number))
		bytes_add_byte(out, '-');
	number = fabs(number);
	snprintf(text, sizeof(text), "%.14e", number);
	precision = strtod(text, NULL) == number ? 0 : 15; /* 15 digits are not enough: skip the shorter tries */
	do
		snprintf(text, sizeof(text), "%.*e", precision, number);
	while (strtod(text, NULL) != number && ++precision < 17);
	for (const char *at = text; *at != 'e'; at++)
		if (*at != '.')
			digits[count++] = *at;
	place_point(out, digits, count, (int)strtol(strchr(text, 'e') + 1, NULL, 10));
}

/* True if both are the same number. */
static bool is_equal(struct slice a, struct slice b)
{
	AUTO_BYTES keys = {NULL, 0, 0};
	char *key = bytes_reserve(&keys, a.len + b.len + (size_t)2 * SORT_KEY_ROOM),
	     *other = key + a.len + SORT_KEY_ROOM;
	size_t len = sort_key(a, key);

	return sort_key(b, other) == len && memcmp(key, other, len) == 0;
}

/* A real that a double cannot hold stays as it is: two such numbers may have the same double. */
static void write_number(struct writer *w, struct slice v)
{
	size_t begin = w->out->len;
	__int128 number;

	w->written.has_odd_number |= !json_to_integer(v, &number) || number < INT64_MIN || number > INT64_MAX;
	if (json_kind(v) == KIND_REAL && isfinite(json_to_real(v))) {
		write_real(w->out, json_to_real(v));
		if (is_equal(v, (struct slice){w->out->at + begin, w->out->len - begin}))
			return;
		w->out->len = begin;
	}
	if (v.len == 2 && memcmp(v.at, "-0", 2) == 0)
		v = (struct slice){"0", 1};
	bytes_add(w->out, v.at, v.len);
}

/* --- containers --- */

static int compare_places(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static int compare_names(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
	int order = memcmp(x->name.at, y->name.at, n);

	if (order)
		return order;
	if (x->name.len != y->name.len)
		return x->name.len < y->name.len ? -1 : 1;
	return compare_places(a, b);
}

/* Drops repeated names from sorted members. The first keeps its place and gets the value of the last. */
static size_t drop_doubles(struct member *members, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct member *last = kept ? &members[kept - 1] : NULL;

		if (last && last->name.len == members[i].name.len &&
		    memcmp(last->name.at, members[i].name.at, last->name.len) == 0)
			last->value = members[i].value;
		else
			members[kept++] = members[i];
	}
	return kept;
}

/* NOLINTBEGIN(misc-no-recursion): at most JSON_WRITE_DEPTH_MAX levels */

static void write_members(struct writer *w, const struct member *members, size_t count)
{
	bytes_add_byte(w->out, '{');
	for (size_t i = 0; i < count; i++) {
		if (i)
			bytes_add_text(w->out, w->is_plain ? ", " : ",");
		write_text(w->out, members[i].name, w->is_plain);
		bytes_add_text(w->out, w->is_plain ? ": " : ":");
		write_value(w, members[i].value);
	}
	bytes_add_byte(w->out, '}');
}

static void write_object(struct writer *w, struct slice v)
{
	struct json_walk walk = json_walk(v);
	AUTO_FREE struct member *members = NULL;
	size_t count = 0, size = 0;

	while (json_walk_next(&walk)) {
		struct slice string = {walk.name.at - 1, walk.name.len + 2};

		if (count == size) {
			size = 2 * size + 8;
			members = memory_realloc(members, size * sizeof(*members));
		}
		members[count] = (struct member){json_text(string, &w->arena), walk.value, count};
		count++;
	}
	if (count)
		qsort(members, count, sizeof(*members), compare_names);
	count = drop_doubles(members, count);
	if (w->is_plain && count)
		qsort(members, count, sizeof(*members), compare_places);
	write_members(w, members, count);
}

static void write_array(struct writer *w, struct slice v)
{
	struct json_walk walk = json_walk(v);
	bool is_first = true;

	bytes_add_byte(w->out, '[');
	for (; json_walk_next(&walk); is_first = false) {
		if (!is_first)
			bytes_add_text(w->out, w->is_plain ? ", " : ",");
		write_value(w, walk.value);
	}
	bytes_add_byte(w->out, ']');
}

static void write_container(struct writer *w, struct slice v)
{
	if (w->depth == JSON_WRITE_DEPTH_MAX) {
		w->written.is_cut = true;
		bytes_add_text(w->out, "null");
		return;
	}
	w->depth++;
	if (*v.at == '{')
		write_object(w, v);
	else
		write_array(w, v);
	w->depth--;
}

static void write_value(struct writer *w, struct slice v)
{
	switch (json_kind(v)) {
	case KIND_OBJECT:
	case KIND_ARRAY:
		write_container(w, v);
		return;
	case KIND_STRING:
		write_text(w->out, json_text(v, &w->arena), w->is_plain);
		return;
	case KIND_INTEGER:
	case KIND_REAL:
		write_number(w, v);
		return;
	case KIND_MISSING:
		bytes_add_text(w->out, "null");
		return;
	case KIND_NULL:
	case KIND_TRUE:
	case KIND_FALSE:
		bytes_add(w->out, v.at, v.len);
		return;
	}
}

/* NOLINTEND(misc-no-recursion) */

struct json_written json_write_canonical(struct bytes *out, struct slice value)
{
	struct writer w = {.out = out};

	write_value(&w, value);
	arena_clear(&w.arena);
	return w.written;
}

void json_write_plain(struct bytes *out, struct slice value)
{
	struct writer w = {.out = out, .is_plain = true};

	write_value(&w, value);
	arena_clear(&w.arena);
}
