/* envelope.c reads messages: json_check() decides whether a message is JSON, and one pass finds the values at the
 * pointers. It builds no tree, and the payload stays the bytes that were received (I6). */
#include "event/envelope.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_pointers.h"
#include "base/memory.h"
#include "config/config.h"

#define POINTERS_MAX  12   /* 8 parts of an id, the type, the payload, the time, the key */
#define DECODED_BYTES 2048 /* room for unescaped strings before malloc is needed */

struct pointer {
	int slot;
	bool is_text;       /* decode the value; else return it as raw JSON */
	bool is_optional;   /* ignore a value that is not text */
	bool is_forgiven;   /* ignore a value that occurs twice */
	const char *name;   /* the pointer as written */
	struct slice value; /* at is NULL if absent */
};

struct envelope {
	struct pointer pointers[POINTERS_MAX];
	int count;
	int id_parts;
	struct pointer *time;  /* NULL: times are not read */
	struct pointer *order; /* NULL: there are no keys */
	struct json_pointers *found;
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

/* --- values --- */

/* Sets the value of a text pointer that is not a number or a string without escapes. Returns NULL, or a fault. */
static const char *take_other(struct envelope *e, struct pointer *t, struct slice value)
{
	struct slice text = *value.at == '"' ? json_text(value, &e->arena) : value;
	const char *wrong = NULL;

	if (*value.at != '"')
		wrong = *value.at == 'n' ? NULL : "is not a string or a number";
	else if (memchr(text.at, '\0', text.len))
		wrong = "contains \\u0000, which Postgres cannot store";
	else if (json_has_half_pair(value.at, value.len))
		wrong = "contains an unpaired surrogate";
	else
		t->value = text;
	return wrong && !t->is_optional ? fault(e, t, wrong) : NULL;
}

/* Sets the value of a pointer. Returns NULL, or why the message is not an event. */
static const char *take(struct envelope *e, struct pointer *t, struct slice value)
{
	t->value = (struct slice){NULL, 0};
	if (!value.at)
		return NULL;
	if (t->is_text && *value.at == '"' && !memchr(value.at, '\\', value.len))
		t->value = (struct slice){value.at + 1, value.len - 2};
	else if (!t->is_text || *value.at == '-' || (*value.at >= '0' && *value.at <= '9'))
		t->value = value;
	else
		return take_other(e, t, value);
	return NULL;
}

/* Refuses an id that is named twice: some parsers take the first member, and jsonb takes the last. */
static const char *take_all(struct envelope *e, struct slice message)
{
	const char *why = NULL;
	const struct slice *slots;
	uint64_t repeated;

	json_pointers_read(e->found, message.at, message.at + message.len);
	slots = json_pointers_slots(e->found);
	repeated = json_pointers_repeated(e->found);
	for (struct pointer *t = e->pointers; !why && t < e->pointers + e->count; t++)
		if (!(repeated >> t->slot & 1))
			why = take(e, t, slots[t->slot]);
		else if (t->is_forgiven)
			t->value = (struct slice){NULL, 0};
		else
			why = fault(e, t, "is named twice");
	return why;
}

/* --- messages --- */

static struct pointer *add_pointer(struct envelope *e, const char *pointer, bool is_text)
{
	struct pointer *t = &e->pointers[e->count++];

	*t = (struct pointer){
		.slot = json_pointers_add(e->found, pointer), .is_text = is_text, .name = memory_strdup(pointer)};
	return t;
}

struct envelope *envelope_new(const struct config_list *id_pointers, const char *type_pointer,
			      const char *payload_pointer)
{
	struct envelope *e = memory_calloc(1, sizeof(*e));

	e->arena = (struct arena){.room = e->arena_room, .size = sizeof(e->arena_room)};
	e->found = json_pointers_new();
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
	for (int i = 0; i < e->count; i++)
		free((char *)e->pointers[i].name);
	json_pointers_free(e->found);
	arena_clear(&e->arena);
	free(e);
}

void envelope_add_time(struct envelope *e, const char *pointer, bool is_forgiven)
{
	e->time = add_pointer(e, pointer, true);
	e->time->is_optional = true;
	e->time->is_forgiven = is_forgiven;
}

void envelope_add_order(struct envelope *e, const char *pointer)
{
	e->order = add_pointer(e, pointer, true);
	e->order->is_optional = true;
}

struct slice envelope_time(const struct envelope *e)
{
	return e->time ? e->time->value : (struct slice){NULL, 0};
}

struct slice envelope_order(const struct envelope *e)
{
	return e->order ? e->order->value : (struct slice){NULL, 0};
}

struct slice envelope_find_order(struct envelope *e, struct slice json)
{
	const char *payload = e->pointers[e->id_parts + 1].name;
	size_t len = strlen(payload);
	struct slice value;

	if (!e->order)
		return (struct slice){NULL, 0};
	value = json_find(json, e->order->name);
	if (!value.at && strncmp(e->order->name, payload, len) == 0 && strchr("/", e->order->name[len]))
		value = json_find(json, e->order->name + len);
	arena_clear(&e->arena);
	take(e, e->order, value);
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

/* Sets *id to the only part, or joins several in e->id. */
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
	arena_clear(&e->arena);
	why = json_check(message, len, &whole);
	if (!why)
		why = take_all(e, whole);
	if (why)
		return why;
	why = join_id(e, &view->id);
	if (why) {
		view->id = (struct slice){NULL, 0};
		return why;
	}
	view->type = type->value.at ? type->value : (struct slice){"", 0};
	view->has_payload = payload->value.at;
	view->payload = view->has_payload ? payload->value : (struct slice){"{}", 2};
	return NULL;
}
