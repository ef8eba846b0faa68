/* envelope.c reads messages: json_check() decides whether a message is JSON, and one walk finds the values at the
 * pointers. It builds no tree, and the payload stays the bytes that were received (I6). */
#include "event/envelope.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/memory.h"
#include "config/config.h"

#define POINTERS_MAX  12   /* 8 parts of an id, the type, the payload, the time, the key */
#define DECODED_BYTES 2048 /* room for unescaped strings before malloc is needed */

struct pointer {
	struct json_step steps[POINTER_STEPS_MAX];
	int count;
	bool is_text;       /* decode the value; else return it as raw JSON */
	bool is_optional;   /* ignore a value that is not text */
	const char *name;   /* the pointer as written, for error messages */
	struct slice value; /* at is NULL until found */
};

struct envelope {
	struct pointer pointers[POINTERS_MAX];
	int count;
	int id_parts;
	const struct pointer *time;  /* NULL: times are not read */
	const struct pointer *order; /* NULL: there are no keys */
	bool is_time_forgiven;
	bool is_time_void;                    /* this message has the time twice */
	uint32_t ends[POINTER_STEPS_MAX + 1]; /* [n]: the set of pointers with n steps */
	char fault_text[300];
	char id[ENVELOPE_ID_MAX + 1];
	struct arena arena; /* decoded strings of this message */
	_Alignas(16) char arena_room[DECODED_BYTES];
};

static const char *fault(struct envelope *e, const struct pointer *t, const char *text)
{
	snprintf(e->fault_text, sizeof(e->fault_text), "%.100s %s", *t->name ? t->name : "the message", text);
	return e->fault_text;
}

/* --- the walk --- */

/* A set of pointers is a bit mask. In the functions below, `set` holds the pointers whose first `level` steps lead to
 * the current value. A function that fails has called fault(). */

static int lowest(uint32_t set)
{
	return __builtin_ctz(set);
}

/* Stores the value of a text pointer when it is not a number or a string without escapes. */
static bool keep_other(struct envelope *e, struct pointer *t, struct slice value)
{
	struct slice text = *value.at == '"' ? json_text(value, &e->arena) : value;
	const char *wrong = NULL;

	if (*value.at != '"')
		wrong = *value.at == 'n' ? NULL : "is not a string or a number";
	else if (memchr(text.at, '\0', text.len))
		wrong = "holds \\u0000, which Postgres cannot store";
	else if (json_has_half_pair(value.at, value.len))
		wrong = "holds half of a surrogate pair";
	else
		t->value = text;
	if (!wrong || t->is_optional)
		return true;
	fault(e, t, wrong);
	return false;
}

/* Stores the value of these pointers. */
static bool keep(struct envelope *e, uint32_t set, struct slice value)
{
	for (; set; set &= set - 1) {
		struct pointer *t = &e->pointers[lowest(set)];

		if (!t->is_text || *value.at == '-' || (*value.at >= '0' && *value.at <= '9'))
			t->value = value;
		else if (*value.at == '"' && !memchr(value.at, '\\', value.len))
			t->value = (struct slice){value.at + 1, value.len - 2};
		else if (!keep_other(e, t, value))
			return false;
	}
	return true;
}

static bool is_step(const struct json_step *step, struct slice name, bool has_escape)
{
	if (has_escape)
		return json_is_name(name, true, step->name, step->len);
	return step->len == name.len && memcmp(step->name, name.at, name.len) == 0;
}

static uint32_t match_name(const struct envelope *e, uint32_t set, int level, struct slice name, bool has_escape)
{
	uint32_t found = 0;

	for (; set; set &= set - 1)
		if (is_step(&e->pointers[lowest(set)].steps[level], name, has_escape))
			found |= set & -set;
	return found;
}

static uint32_t match_index(const struct envelope *e, uint32_t set, int level, long index)
{
	uint32_t found = 0;

	for (; set; set &= set - 1)
		if (e->pointers[lowest(set)].steps[level].index == index)
			found |= set & -set;
	return found;
}

/* A member on the way to a value occurs twice. Refuse the message: some parsers take the first, jsonb takes the last,
 * so the row could contradict its id. */
static bool may_be_twice(struct envelope *e, uint32_t set)
{
	for (; set; set &= set - 1) {
		const struct pointer *t = &e->pointers[lowest(set)];

		if (t != e->time || !e->is_time_forgiven) {
			fault(e, t, "is named twice");
			return false;
		}
		e->is_time_void = true;
	}
	return true;
}

/* NOLINTBEGIN(misc-no-recursion): not deeper than POINTER_STEPS_MAX */

static const char *walk(struct envelope *e, const char *at, const char *end, int level, uint32_t set);

static const char *walk_object(struct envelope *e, const char *at, const char *end, int level, uint32_t set)
{
	uint32_t met = 0;

	for (at = json_next(at + 1, end); *at != '}'; at = json_next(at, end)) {
		const char *name = at + 1;
		bool has_escape;
		uint32_t here, twice;

		at = json_skip_string(at, &has_escape);
		here = match_name(e, set, level, (struct slice){name, (size_t)(at - name - 1)}, has_escape);
		twice = here & met;
		met |= here;
		if (twice && !may_be_twice(e, twice))
			return NULL;
		here &= ~twice;
		at = json_next(at, end);
		at = here ? walk(e, at, end, level + 1, here) : json_skip(at, end);
		if (!at)
			return NULL;
	}
	return at + 1;
}

static const char *walk_array(struct envelope *e, const char *at, const char *end, int level, uint32_t set)
{
	at = json_next(at + 1, end);
	for (long i = 0; *at != ']'; i++) {
		uint32_t here = match_index(e, set, level, i);

		at = here ? walk(e, at, end, level + 1, here) : json_skip(at, end);
		if (!at)
			return NULL;
		at = json_next(at, end);
	}
	return at + 1;
}

/* Returns the end of the value at `at`, or NULL if the message is not an event. */
static const char *walk(struct envelope *e, const char *at, const char *end, int level, uint32_t set)
{
	uint32_t here = set & e->ends[level], below = set & ~here;
	const char *begin = at;

	if (!below || (*at != '{' && *at != '['))
		at = json_skip(at, end);
	else
		at = *at == '{' ? walk_object(e, at, end, level, below) : walk_array(e, at, end, level, below);
	if (!at || !keep(e, here, (struct slice){begin, (size_t)(at - begin)}))
		return NULL;
	return at;
}

/* NOLINTEND(misc-no-recursion) */

/* --- messages --- */

static void reset(struct envelope *e)
{
	for (int i = 0; i < e->count; i++)
		e->pointers[i].value = (struct slice){NULL, 0};
	e->is_time_void = false;
	arena_clear(&e->arena);
}

static void add_pointer(struct envelope *e, const char *pointer, bool is_text)
{
	struct pointer *t = &e->pointers[e->count];

	t->is_text = is_text;
	t->name = memory_strdup(pointer);
	t->count = json_steps(pointer, t->steps, POINTER_STEPS_MAX);
	assert(t->count >= 0); /* checked by config.c */
	e->ends[t->count] |= 1u << e->count++;
}

struct envelope *envelope_new(const struct config_list *id_pointers, const char *type_pointer,
			      const char *payload_pointer)
{
	struct envelope *e = memory_calloc(1, sizeof(*e));

	e->arena = (struct arena){.room = e->arena_room, .size = sizeof(e->arena_room)};
	e->id_parts = (int)id_pointers->count;
	for (size_t i = 0; i < id_pointers->count; i++)
		add_pointer(e, id_pointers->items[i], true);
	add_pointer(e, type_pointer, true);
	add_pointer(e, payload_pointer, false);
	return e;
}

void envelope_free(struct envelope *e)
{
	if (!e)
		return;
	for (int i = 0; i < e->count; i++) {
		struct pointer *t = &e->pointers[i];

		json_steps_free(t->steps, t->count);
		free((char *)t->name);
	}
	arena_clear(&e->arena);
	free(e);
}

void envelope_add_time(struct envelope *e, const char *pointer)
{
	struct pointer *t = &e->pointers[e->count];

	add_pointer(e, pointer, true);
	t->is_optional = true;
	e->time = t;
}

void envelope_add_order(struct envelope *e, const char *pointer)
{
	struct pointer *t = &e->pointers[e->count];

	add_pointer(e, pointer, true);
	t->is_optional = true;
	e->order = t;
}

void envelope_forgive_time(struct envelope *e)
{
	e->is_time_forgiven = true;
}

struct slice envelope_time(const struct envelope *e)
{
	return e->time && !e->is_time_void ? e->time->value : (struct slice){NULL, 0};
}

struct slice envelope_order(const struct envelope *e)
{
	return e->order ? e->order->value : (struct slice){NULL, 0};
}

struct slice envelope_find_order(struct envelope *e, struct slice json)
{
	reset(e);
	if (!e->order || !walk(e, json.at, json.at + json.len, 0, 1u << (e->order - e->pointers)))
		return (struct slice){NULL, 0};
	return e->order->value;
}

static const char *check_part(struct envelope *e, const struct pointer *t)
{
	if (!t->value.at)
		return fault(e, t, "is missing: the event has no id");
	if (!t->value.len)
		return fault(e, t, "is empty: the event has no id");
	if (t->value.len > ENVELOPE_ID_MAX)
		return fault(e, t, "makes an id of more than 512 bytes");
	return NULL;
}

/* Appends a part to the n bytes in e->id. Returns the new length, or 0 if it is too long. */
static size_t add_part(struct envelope *e, size_t n, const struct pointer *t)
{
	if (n)
		e->id[n++] = '|';
	for (size_t k = 0; k < t->value.len; k++) {
		char c = t->value.at[k];
		bool is_escaped = c == '|' || c == '\\';

		if (n + 1 + is_escaped > ENVELOPE_ID_MAX)
			return 0;
		if (is_escaped)
			e->id[n++] = '\\';
		e->id[n++] = c;
	}
	return n;
}

/* A single part is the id; several are joined in e->id. */
static const char *join_id(struct envelope *e, struct slice *id)
{
	size_t n = 0;

	for (int i = 0; i < e->id_parts; i++) {
		const struct pointer *t = &e->pointers[i];
		const char *why = check_part(e, t);

		if (why)
			return why;
		if (e->id_parts == 1) {
			*id = t->value;
			return NULL;
		}
		n = add_part(e, n, t);
		if (!n)
			return fault(e, t, "makes an id of more than 512 bytes");
	}
	*id = (struct slice){e->id, n};
	return NULL;
}

const char *envelope_read(struct envelope *e, const char *message, size_t len, struct envelope_view *view)
{
	const struct pointer *type = &e->pointers[e->id_parts];
	const struct pointer *payload = type + 1;
	struct slice whole;
	const char *why;

	*view = (struct envelope_view){0};
	reset(e);
	why = json_check(message, len, &whole);
	if (why)
		return why;
	if (!walk(e, whole.at, whole.at + whole.len, 0, (1u << e->count) - 1))
		return e->fault_text;
	why = join_id(e, &view->id);
	if (why) {
		view->id = (struct slice){NULL, 0};
		return why;
	}
	view->source = NULL;
	view->type = type->value.at ? type->value : (struct slice){"", 0};
	view->payload = payload->value.at ? payload->value : (struct slice){"{}", 2};
	return NULL;
}
