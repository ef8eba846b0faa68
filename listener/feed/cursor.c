/* cursor.c owns the arithmetic of cursors: comparing, holding, clamping, rewinding, hexadecimal. */
#include "feed/cursor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/sort_key.h"

static void mark_set(struct mark *to, const struct mark *from)
{
	to->kind = from->kind;
	to->number = from->number;
	to->json.len = 0;
	bytes_add(&to->json, from->json.at, from->json.len);
}

void cursor_free(struct cursor *c)
{
	bytes_free(&c->mark.json);
	bytes_free(&c->pending.json);
	bytes_free(&c->printed);
}

void cursor_clear(struct cursor *c)
{
	c->mark.kind = MARK_NONE;
}

void cursor_connect(struct cursor *c)
{
	c->is_held = c->profile->cursor.hold_until != NULL;
	c->pending.kind = MARK_NONE;
}

/* --- reading --- */

/* Reads the string "0x1b4" or "1b4". */
static bool read_hex(struct slice v, __int128 *number)
{
	size_t i = 1, end = v.len - 1;

	*number = 0;
	if (json_kind(v) != KIND_STRING)
		return false;
	if (end - i > 2 && v.at[i] == '0' && (v.at[i + 1] | 0x20) == 'x')
		i += 2;
	if (i == end || end - i > 31)
		return false;
	for (; i < end; i++) {
		char c = (char)(v.at[i] | 0x20);
		int digit = c >= 'a' && c <= 'f' ? c - 'a' + 10 : v.at[i] - '0';

		if (digit < 0 || digit > 15 || (digit > 9 && c < 'a'))
			return false;
		*number = *number * 16 + digit;
	}
	return true;
}

/* m->json points into value. */
static bool read_mark(struct mark *m, struct slice value, bool is_hex)
{
	enum json_kind kind = json_kind(value);

	*m = (struct mark){.kind = MARK_INTEGER};
	if (is_hex)
		return read_hex(value, &m->number);
	if (kind == KIND_INTEGER)
		return json_to_integer(value, &m->number);
	m->json = (struct bytes){(char *)value.at, value.len, 0};
	m->kind = kind == KIND_REAL ? MARK_REAL : kind == KIND_STRING ? MARK_TEXT : MARK_OTHER;
	return true;
}

/* --- printing --- */

/* number is negative only for MARK_INTEGER without a rewind. */
static void print(struct bytes *out, __int128 number, unsigned base)
{
	char text[48], *at = text + sizeof(text);
	bool is_negative = number < 0;

	for (; number || at == text + sizeof(text); number /= base)
		*--at = "0123456789abcdef"[number % base < 0 ? -(number % base) : number % base];
	if (is_negative)
		*--at = '-';
	bytes_add(out, at, (size_t)(text + sizeof(text) - at));
}

/* --- comparing, as the store does --- */

/* Postgres stores no text with a NUL or an unpaired surrogate, and no number out of numeric's range. */
static bool is_storable(const struct mark *m)
{
	struct slice json = {m->json.at, m->json.len};
	const char *exponent = m->kind == MARK_REAL ? memchr(json.at, 'e', json.len) : NULL;

	if (m->kind == MARK_TEXT)
		return !json_has_half_pair(json.at, json.len) && !memmem(json.at, json.len, "\\u0000", 6);
	if (m->kind == MARK_REAL && !exponent)
		exponent = memchr(json.at, 'E', json.len);
	return m->kind != MARK_REAL || (json.len <= 100 && (!exponent || json.at + json.len - exponent <= 5));
}

static bool is_number(const struct mark *m)
{
	return m->kind == MARK_INTEGER || m->kind == MARK_REAL;
}

static bool is_comparable(const struct mark *a, const struct mark *b)
{
	return (is_number(a) && is_number(b)) || (a->kind == MARK_TEXT && b->kind == MARK_TEXT);
}

static struct bytes key_of(const struct mark *m)
{
	struct bytes printed = {NULL, 0, 0}, key = {NULL, 0, 0};
	struct slice json = {m->json.at, m->json.len};

	if (m->kind == MARK_INTEGER) {
		print(&printed, m->number, 10);
		json = bytes_slice(&printed);
	}
	key.len = sort_key(json, bytes_reserve(&key, json.len + SORT_KEY_ROOM));
	bytes_free(&printed);
	return key;
}

static bool is_beyond(const struct mark *m, const struct mark *than)
{
	struct bytes a, b;
	int order;

	if (m->kind == MARK_INTEGER && than->kind == MARK_INTEGER)
		return m->number > than->number;
	a = key_of(m);
	b = key_of(than);
	assert(a.at && b.at);
	order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
	order = order ? order : a.len > b.len;
	bytes_free(&a);
	bytes_free(&b);
	return order > 0;
}

bool cursor_is_ahead(struct slice a, struct slice b, bool is_hex)
{
	struct mark x, y;

	return !read_mark(&x, a, is_hex) || !read_mark(&y, b, is_hex) || !is_comparable(&x, &y) || is_beyond(&y, &x);
}

/* --- moving --- */

/* Moves `to` forward to m, never back. */
static bool advance(const struct cursor *c, struct mark *to, const struct mark *m)
{
	bool is_free =
		to->kind == MARK_NONE || c->profile->cursor.kind == CURSOR_LAST || (to == &c->mark && c->is_restored);

	if (!is_free && !is_comparable(m, to))
		return false;
	if (is_free || is_beyond(m, to))
		mark_set(to, m);
	return true;
}

static bool advance_mark(struct cursor *c, const struct mark *m)
{
	bool is_taken = advance(c, &c->mark, m);

	c->is_restored &= !is_taken;
	return is_taken;
}

bool cursor_advance(struct cursor *c, struct slice value, int64_t now_s, bool is_held)
{
	struct mark m;

	if (json_kind(value) <= KIND_NULL)
		return true;
	if (!read_mark(&m, value, c->profile->cursor.format == FORMAT_HEX) ||
	    (c->profile->cursor.kind == CURSOR_MAX && !is_storable(&m)))
		return false;
	if (c->profile->cursor.clamp_now && m.kind == MARK_INTEGER && m.number > now_s)
		m.number = now_s;
	if (is_held)
		return advance(c, &c->pending, &m);
	c->moved_s = now_s;
	return advance_mark(c, &m);
}

void cursor_release(struct cursor *c)
{
	c->is_held = false;
	if (c->pending.kind != MARK_NONE)
		advance_mark(c, &c->pending);
	c->pending.kind = MARK_NONE;
}

bool cursor_restore(struct cursor *c, struct slice value, int64_t since_s)
{
	struct mark m;

	if (json_kind(value) <= KIND_NULL || !read_mark(&m, value, false))
		return false;
	if (c->profile->cursor.format == FORMAT_HEX && m.kind != MARK_INTEGER)
		return false;
	mark_set(&c->mark, &m);
	c->is_restored = true;
	c->moved_s = since_s;
	return true;
}

/* --- writing --- */

struct slice cursor_mark(struct cursor *c)
{
	if (c->mark.kind == MARK_NONE)
		return (struct slice){NULL, 0};
	if (c->mark.kind != MARK_INTEGER)
		return bytes_slice(&c->mark.json);
	c->printed.len = 0;
	print(&c->printed, c->mark.number, 10);
	return bytes_slice(&c->printed);
}

struct slice cursor_next(struct cursor *c)
{
	__int128 number = c->mark.number - c->profile->cursor.rewind;

	if (c->mark.kind != MARK_INTEGER)
		return cursor_mark(c);
	if (number < 0)
		number = 0;
	c->printed.len = 0;
	if (c->profile->cursor.format == FORMAT_HEX) {
		bytes_add_text(&c->printed, "\"0x");
		print(&c->printed, number, 16);
		bytes_add_byte(&c->printed, '"');
	} else {
		print(&c->printed, number, 10);
	}
	return bytes_slice(&c->printed);
}
