/* condition.c compares values with conditions. At the top level, values are equal only if they have the same type: 1 is
 * not "1", 1.0 or true. Inside arrays and objects, and for `not`, numbers are compared by value, and true is 1. */
#include "base/condition.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/memory.h"

struct condition {
	int slot;
	const json_t *want;
	struct bytes plain; /* the wanted text as JSON without escapes; empty: not a text */
};

static void note_plain(struct condition *c)
{
	if (!json_is_string(c->want))
		return;
	json_write_string(&c->plain, json_string_value(c->want), json_string_length(c->want));
	if (memchr(c->plain.at, '\\', c->plain.len))
		c->plain.len = 0;
}

void conditions_compile(struct conditions *c, const json_t *object, struct json_pointers *pointers)
{
	const char *pointer;
	json_t *want;

	*c = (struct conditions){NULL, 0};
	if (!json_object_size(object))
		return;
	c->items = memory_calloc(json_object_size(object), sizeof(*c->items));
	json_object_foreach((json_t *)object, pointer, want)
	{
		c->items[c->count] = (struct condition){.slot = json_pointers_add(pointers, pointer), .want = want};
		note_plain(&c->items[c->count++]);
	}
}

void conditions_free(struct conditions *c)
{
	for (size_t i = 0; i < c->count; i++)
		bytes_free(&c->items[i].plain);
	free(c->items);
	*c = (struct conditions){NULL, 0};
}

/* --- equality --- */

/* NOLINTBEGIN(misc-no-recursion): not deeper than the profile */

static bool equals(struct slice v, const json_t *want);

static bool equals_text(struct slice v, const char *text, size_t len)
{
	struct arena a = {.room = NULL};
	bool is_equal;

	if (v.len == len + 2 && memcmp(v.at + 1, text, len) == 0)
		return !memchr(text, '\\', len);
	if (v.len < len + 2)
		return false;
	v = json_text(v, &a);
	is_equal = v.len == len && memcmp(v.at, text, len) == 0;
	arena_clear(&a);
	return is_equal;
}

/* Compares numbers, with true as 1 and false as 0. Returns -1, 0 or 1 if v is less, equal or greater. */
static int compare(struct slice v, const json_t *want)
{
	enum json_kind kind = json_kind(v);
	double real, other = json_number_value(want);
	__int128 whole, number = kind == KIND_TRUE;

	if (json_is_boolean(want))
		other = json_is_true(want);
	if (kind == KIND_REAL || (kind == KIND_INTEGER && !json_to_integer(v, &number))) {
		real = json_to_real(v);
		return real < other ? -1 : real > other;
	}
	if (json_is_real(want) && (other < -1e38 || other > 1e38 || other != (double)(__int128)other))
		return (double)number < other ? -1 : 1;
	whole = json_is_integer(want) ? json_integer_value(want) : (__int128)other;
	return number < whole ? -1 : number > whole;
}

static bool is_numeric(struct slice v)
{
	return json_kind(v) >= KIND_FALSE && json_kind(v) <= KIND_REAL;
}

static bool equals_array(struct slice v, const json_t *want)
{
	struct json_walk w = json_walk(v);
	size_t i = 0;

	for (; json_walk_next(&w); i++)
		if (i >= json_array_size(want) || !equals(w.value, json_array_get(want, i)))
			return false;
	return i == json_array_size(want);
}

/* True if both have the same names with equal values. */
static bool equals_object(struct slice v, const json_t *want)
{
	struct json_walk w = json_walk(v);
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)want, name, value)
	{
		struct json_step step = {(char *)name, strlen(name), -1};
		struct slice member = json_child(v, &step);

		if (!member.at || !equals(member, value))
			return false;
	}
	while (json_walk_next(&w)) {
		bool is_wanted = false;

		json_object_foreach((json_t *)want, name, value) is_wanted =
			is_wanted || json_is_name(w.name, w.has_escape, name, strlen(name));
		if (!is_wanted)
			return false;
	}
	return true;
}

static bool equals(struct slice v, const json_t *want)
{
	switch (json_kind(v)) {
	case KIND_MISSING:
		return false;
	case KIND_NULL:
		return json_is_null(want);
	case KIND_STRING:
		return json_is_string(want) && equals_text(v, json_string_value(want), json_string_length(want));
	case KIND_ARRAY:
		return json_is_array(want) && equals_array(v, want);
	case KIND_OBJECT:
		return json_is_object(want) && equals_object(v, want);
	case KIND_TRUE:
	case KIND_FALSE:
	case KIND_INTEGER:
	case KIND_REAL:
		return (json_is_number(want) || json_is_boolean(want)) && compare(v, want) == 0;
	}
	return false;
}

/* NOLINTEND(misc-no-recursion) */

/* True if both are equal and of the same type. */
static bool is_same(struct slice v, const json_t *want)
{
	switch (json_kind(v)) {
	case KIND_TRUE:
	case KIND_FALSE:
		return json_is_boolean(want) && (*v.at == 't') == json_is_true(want);
	case KIND_INTEGER:
		return json_is_integer(want) && compare(v, want) == 0;
	case KIND_REAL:
		return json_is_real(want) && compare(v, want) == 0;
	case KIND_MISSING:
	case KIND_NULL:
	case KIND_STRING:
	case KIND_ARRAY:
	case KIND_OBJECT:
		return equals(v, want);
	}
	return false;
}

static bool is_among(struct slice v, const json_t *list, bool (*test)(struct slice v, const json_t *want))
{
	size_t i;
	json_t *want;

	if (!json_is_array(list))
		return test(v, list);
	json_array_foreach(list, i, want) if (test(v, want)) return true;
	return false;
}

/* --- operators --- */

static bool has_type(struct slice v, const char *type)
{
	static const char *const names[] = {
		[KIND_FALSE] = "boolean", [KIND_TRUE] = "boolean", [KIND_INTEGER] = "integer",
		[KIND_STRING] = "string", [KIND_ARRAY] = "array",  [KIND_OBJECT] = "object",
	};
	const char *name = names[json_kind(v)];

	return name && strcmp(type, name) == 0;
}

static bool has_prefix(struct slice v, const char *prefix, size_t len)
{
	struct arena a = {.room = NULL};
	struct slice text;
	bool result;

	if (json_kind(v) != KIND_STRING)
		return false;
	text = json_text(v, &a);
	result = text.len >= len && memcmp(text.at, prefix, len) == 0;
	arena_clear(&a);
	return result;
}

static bool operator_holds(struct slice v, const char *name, const json_t *want)
{
	if (strcmp(name, "exists") == 0)
		return (json_kind(v) > KIND_NULL) == json_is_true(want);
	if (strcmp(name, "not") == 0)
		return !is_among(v, want, equals);
	if (strcmp(name, "prefix") == 0)
		return has_prefix(v, json_string_value(want), json_string_length(want));
	if (strcmp(name, "type") == 0)
		return has_type(v, json_string_value(want));
	if (strcmp(name, "gte") == 0)
		return is_numeric(v) && compare(v, want) >= 0;
	return is_numeric(v) && compare(v, want) < 0;
}

static bool holds(struct slice v, const json_t *want)
{
	const char *name;
	json_t *value;

	if (!json_is_object(want))
		return is_among(v, want, is_same);
	json_object_foreach((json_t *)want, name, value) if (!operator_holds(v, name, value)) return false;
	return true;
}

/* Most texts have no escapes, so compare bytes first. Escapes only make a text longer. */
static bool is_met(const struct condition *c, struct slice v)
{
	if (!c->plain.len || v.len > c->plain.len)
		return holds(v, c->want);
	return v.len == c->plain.len && memcmp(v.at, c->plain.at, v.len) == 0;
}

bool conditions_hold(const struct conditions *c, const struct slice *slots)
{
	for (size_t i = 0; i < c->count; i++)
		if (!is_met(&c->items[i], slots[c->items[i].slot]))
			return false;
	return true;
}
