/* envelope.c owns the reading of messages: what is at the three pointers, and whether the whole
 * is JSON. Most messages are read by envelope_quick.c. The others yajl reads, which checks the grammar and the UTF-8
 * and reports each token; this file only watches where it is. No tree is built, and the payload is handed on as the
 * bytes that came (I6). */
#include "road/envelope.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/keyed.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/config.h"
#include "road/envelope_state.h"

/* yajl has no way to use a parser again, and its mallocs would cost a third of the parse: it gets an
 * arena inside the reader. All of it goes when the message is done. */
static void *parser_realloc(void *ctx, void *old, size_t size)
{
	return arena_realloc(ctx, old, size);
}

static void *parser_alloc(void *ctx, size_t size)
{
	return arena_alloc(ctx, size);
}

static void parser_free(void *ctx, void *ptr)
{
	(void)ctx, (void)ptr; /* with the message */
}

static int fault(struct envelope *e, const char *text)
{
	e->fault = text;
	return 0; /* tells yajl to stop */
}

static int fault_at(struct envelope *e, const struct pointer *t, const char *text)
{
	snprintf(e->fault_text, sizeof(e->fault_text), "%.100s %s", *t->name ? t->name : "the message", text);
	return fault(e, e->fault_text);
}

/* The value at hand is not one that the target may have. */
static int fault_in_value(struct envelope *e, const struct pointer *t, const char *text)
{
	return t->is_optional ? 1 : fault_at(e, t, text);
}

/* Where the token at hand ends. A number that is the whole message ends only with it. */
static size_t position(const struct envelope *e)
{
	return e->is_finishing ? e->len : yajl_get_bytes_consumed(e->parser);
}

/* Where the token after last_end begins: what may stand between is blanks, a colon, a comma. */
static size_t token_begin(const struct envelope *e)
{
	size_t at = e->last_end;

	for (; at < e->len; at++) {
		char c = e->message[at];

		if (c != ' ' && c != ':' && c != ',' && c != '\n' && c != '\r' && c != '\t')
			break;
	}
	return at;
}

static bool is_pointer_here(const struct envelope *e, const struct pointer *t)
{
	return t->count == e->depth && t->matched == e->depth;
}

/* A value begins inside an array: its index is the last step of the path. */
static int enter_element(struct envelope *e)
{
	int level = e->depth - 1;
	long at;

	if (e->depth == 0 || e->depth > e->deepest || e->index[level] < 0)
		return 1;
	at = e->index[level]++;
	for (int i = 0; i < e->count; i++) {
		struct pointer *t = &e->pointers[i];

		if (t->count > level && t->matched >= level)
			t->matched = level + (t->steps[level].index == at);
	}
	return 1;
}

static int keep_text(struct envelope *e, struct pointer *t, const char *text, size_t len)
{
	size_t begin = token_begin(e);

	if (memchr(text, '\0', len))
		return fault_in_value(e, t, "holds \\u0000, which Postgres cannot store");
	/* yajl decodes it to a question mark, which would give different ids one name. */
	if (json_has_half_pair(e->message + begin, position(e) - begin))
		return fault_in_value(e, t, "holds half of a surrogate pair");
	if (t->copy_size < len + 1) {
		t->copy_size = len + 1;
		t->copy = memory_realloc(t->copy, t->copy_size);
	}
	memcpy(t->copy, text, len);
	t->value = (struct slice){t->copy, len};
	return 1;
}

/* A string, number, boolean or null; text is decoded, NULL for the last two. A number has no
 * escapes, so the check for surrogates finds none in it. */
static int on_scalar(struct envelope *e, const char *text, size_t len, bool is_null)
{
	enter_element(e);
	if (e->depth <= e->deepest)
		for (int i = 0; i < e->count; i++) {
			struct pointer *t = &e->pointers[i];

			if (!is_pointer_here(e, t))
				continue;
			if (!t->is_text) {
				size_t begin = token_begin(e);

				t->value = (struct slice){e->message + begin, position(e) - begin};
			} else if (text) {
				if (!keep_text(e, t, text, len))
					return 0;
			} else if (!is_null && !fault_in_value(e, t, "is not a string or a number")) {
				return 0;
			}
		}
	if (e->depth <= e->deepest)
		e->last_end = position(e);
	return 1;
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
	return on_scalar(ctx, (const char *)text, len, false);
}

static int on_number(void *ctx, const char *text, size_t len)
{
	return on_scalar(ctx, text, len, false);
}

static int on_boolean(void *ctx, int value)
{
	(void)value;
	return on_scalar(ctx, NULL, 0, false);
}

static int on_null(void *ctx)
{
	return on_scalar(ctx, NULL, 0, true);
}

static int on_open(struct envelope *e, bool is_array)
{
	enter_element(e);
	if (e->depth == ENVELOPE_DEPTH_MAX)
		return fault(e, "the message is nested too deeply (more than 2048 levels)");
	if (e->depth <= e->deepest) {
		for (int i = 0; i < e->count; i++) {
			struct pointer *t = &e->pointers[i];

			if (!is_pointer_here(e, t))
				continue;
			if (t->is_text && !fault_in_value(e, t, "is not a string or a number"))
				return 0;
			if (t->is_text)
				continue;
			t->begin = token_begin(e);
			t->open_depth = e->depth;
		}
		if (e->depth < POINTER_STEPS_MAX)
			e->index[e->depth] = is_array ? 0 : -1;
		e->last_end = position(e);
	}
	e->depth++;
	return 1;
}

static int on_open_object(void *ctx)
{
	return on_open(ctx, false);
}

static int on_open_array(void *ctx)
{
	return on_open(ctx, true);
}

static int on_close(void *ctx)
{
	struct envelope *e = ctx;

	e->depth--;
	if (e->depth > e->deepest)
		return 1;
	for (int i = 0; i < e->count; i++) {
		struct pointer *t = &e->pointers[i];

		if (t->matched > e->depth)
			t->matched = e->depth;
		if (t->open_depth != e->depth)
			continue;
		t->open_depth = -1;
		t->value = (struct slice){e->message + t->begin, position(e) - t->begin};
	}
	e->last_end = position(e);
	return 1;
}

/* Is the name at hand, decoded to key, what the step says? Half of a surrogate pair decodes to a
 * question mark, which is another name. */
static bool is_step(const struct envelope *e, const struct pointer *t, int level, const void *key, size_t len)
{
	const struct json_step *step = &t->steps[level];
	size_t begin;

	if (step->len != len || memcmp(step->name, key, len) != 0)
		return false;
	begin = token_begin(e);
	return !json_has_half_pair(e->message + begin, position(e) - begin);
}

/* The same member twice on the way to a target: one parser takes the first, jsonb the last, so
 * the row could contradict its id. Such a message is refused. */
static int on_key(void *ctx, const unsigned char *key, size_t len)
{
	struct envelope *e = ctx;
	int level = e->depth - 1;

	if (e->depth > e->deepest)
		return 1;
	for (int i = 0; i < e->count; i++) {
		struct pointer *t = &e->pointers[i];

		if (t->count <= level || t->matched < level)
			continue;
		t->matched = level;
		if (!is_step(e, t, level, key, len))
			continue;
		if ((t->seen & 1u << level) && t == e->time && e->is_time_forgiven) {
			e->is_time_void = true;
			continue;
		}
		if (t->seen & 1u << level)
			return fault_at(e, t, "is named twice");
		t->seen |= 1u << level;
		t->matched = level + 1;
	}
	e->last_end = position(e);
	return 1;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_open_object,
	.yajl_map_key = on_key,
	.yajl_end_map = on_close,
	.yajl_start_array = on_open_array,
	.yajl_end_array = on_close,
};

static void add_pointer(struct envelope *e, const char *pointer, bool is_text)
{
	struct pointer *t = &e->pointers[e->count];

	t->is_text = is_text;
	t->name = memory_strdup(pointer);
	t->count = json_steps(pointer, t->steps, POINTER_STEPS_MAX);
	assert(t->count >= 0); /* config.c has checked it */
	e->ends[t->count] |= 1u << e->count++;
	if (t->count > e->deepest)
		e->deepest = t->count;
}

struct envelope *envelope_new(const struct config_list *id_pointers, const char *type_pointer,
			      const char *payload_pointer)
{
	struct envelope *e = memory_calloc(1, sizeof(*e));

	e->memory = (yajl_alloc_funcs){parser_alloc, parser_realloc, parser_free, &e->arena};
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
		free(t->copy);
	}
	free(e);
}

void envelope_add_time(struct envelope *e, const char *pointer)
{
	struct pointer *t = &e->pointers[e->count];

	add_pointer(e, pointer, true);
	t->is_optional = true;
	e->time = t;
}

void envelope_forgive_time(struct envelope *e)
{
	e->is_time_forgiven = true;
}

struct slice envelope_time(const struct envelope *e)
{
	return e->time && !e->is_time_void ? e->time->value : (struct slice){NULL, 0};
}

static const char *name_error(struct envelope *e)
{
	unsigned char *text;

	if (e->fault)
		return e->fault;
	text = yajl_get_error(e->parser, 0, NULL, 0);
	snprintf(e->fault_text, sizeof(e->fault_text), "not JSON: %.200s", (char *)text);
	e->fault_text[strcspn(e->fault_text, "\n")] = '\0';
	yajl_free_error(e->parser, text);
	return e->fault_text;
}

static bool is_blank(const char *text, size_t len)
{
	while (len && strchr(" \t\r\n", *text) && *text) {
		text++;
		len--;
	}
	return !len;
}

static void reset(struct envelope *e, const char *message, size_t len)
{
	for (int i = 0; i < e->count; i++) {
		struct pointer *t = &e->pointers[i];

		t->matched = 0;
		t->seen = 0;
		t->value = (struct slice){NULL, 0};
		t->open_depth = -1;
	}
	e->depth = 0;
	e->message = message;
	e->len = len;
	e->last_end = 0;
	e->fault = NULL;
	e->is_finishing = false;
}

static const char *run_parser(struct envelope *e)
{
	yajl_status status;

	e->parser = yajl_alloc(&callbacks, &e->memory, e);
	status = yajl_parse(e->parser, (const unsigned char *)e->message, e->len);
	e->is_finishing = true;
	if (status == yajl_status_ok)
		status = yajl_complete_parse(e->parser);
	if (status != yajl_status_ok)
		return name_error(e);
	if (!is_blank(e->message + e->last_end, e->len - e->last_end))
		return "not JSON: something follows the message";
	return NULL;
}

static const char *parse(struct envelope *e, const char *message, size_t len)
{
	const char *why;

	/* yajl takes these two for blanks; JSON has them only in escapes. */
	if (memchr(message, '\v', len) || memchr(message, '\f', len))
		return "not JSON: it holds a vertical tab or a form feed";
	reset(e, message, len);
	e->is_time_void = false;
	why = run_parser(e); /* needs no yajl_free: all that it had is in the arena */
	arena_clear(&e->arena);
	return why;
}

static const char *check_part(struct envelope *e, const struct pointer *t)
{
	if (!t->value.at)
		return fault_at(e, t, "is missing: the event has no id"), e->fault;
	if (!t->value.len)
		return fault_at(e, t, "is empty: the event has no id"), e->fault;
	if (t->value.len > ENVELOPE_ID_MAX)
		return fault_at(e, t, "makes an id of more than 512 bytes"), e->fault;
	return NULL;
}

/* Adds a part to the n bytes of e->id; returns how many they are then, or 0 if they are too many. */
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

/* The id's only part as it is, or its parts joined into e->id. */
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
			return fault_at(e, t, "makes an id of more than 512 bytes"), e->fault;
	}
	*id = (struct slice){e->id, n};
	return NULL;
}

const char *envelope_read(struct envelope *e, const char *message, size_t len, struct envelope_view *view)
{
	const struct pointer *type = &e->pointers[e->id_parts];
	const struct pointer *payload = type + 1;
	const char *why;

	*view = (struct envelope_view){0};
	/* yajl passes overlong forms and surrogates; so does a database that is not UTF8. */
	if (!is_utf8(message, len))
		return "the message is not valid UTF-8";
	reset(e, message, len);
	why = envelope_read_quickly(e, message, len) ? NULL : parse(e, message, len);
	if (why)
		return why;
	why = join_id(e, &view->id);
	if (why) {
		view->id = (struct slice){NULL, 0};
		return why;
	}
	view->source = NULL;
	view->id_hash = keyed_hash(view->id.at, view->id.len);
	view->type = type->value.at ? type->value : (struct slice){"", 0};
	view->payload = payload->value.at ? payload->value : (struct slice){"{}", 2};
	return NULL;
}
