/* template.c renders templates. A value from a source is inserted as it is and never rendered again, so that a source
 * cannot read secrets. */
#include "feed/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/secret.h"
#include "config/profile_placeholder.h"
#include "feed/sign.h"

#define TEMPLATE_MOST (16 << 20)  /* bytes of a rendered list, without its last element */
#define SEARCHED_MOST (256 << 20) /* bytes searched for values of a list */

/* --- values --- */

/* Appends the secret env:X or file:P. */
static void add_secret(struct bytes *out, struct slice of, struct template_scope *scope)
{
	bool is_env = strncmp(of.at, "env:", 4) == 0;
	char *name = memory_strndup(of.at, of.len), *text = secret_of(name);

	if (!text)
		snprintf(scope->fault, sizeof(scope->fault), "%s %.120s %s", is_env ? "the variable" : "the file",
			 strchr(name, ':') + 1,
			 is_env ? "is not set" : "cannot be read, or its first line is empty, too long or not text");
	else if (scope->secrets) /* a file may have changed since the connect */
		secrets_add(scope->secrets, name, text, strlen(text));
	bytes_add_text(out, text ? text : "");
	free(name);
	free(text);
}

/* NOLINTBEGIN(misc-no-recursion): a signature holds no other */

static void fill(struct bytes *out, const char *text, struct template_scope *scope, bool is_url);

/* Values in TEXT are not percent-encoded, not even in a URL. */
static void add_signature(struct bytes *out, const struct placeholder *p, struct template_scope *scope)
{
	struct bytes key = {NULL, 0, 0}, filled = {NULL, 0, 0};
	char *text = memory_strndup(p->text.at, p->text.len);
	size_t before = out->len;
	const char *fault;

	fill(&filled, text, scope, false);
	if (p->how == SIGN_RSA_PSS)
		bytes_add(&key, p->key.at + 5, p->key.len - 5); /* the path */
	else
		add_secret(&key, p->key, scope);
	fault = sign(out, p->how, bytes_text(&key), bytes_slice(&filled));
	if (fault && !*scope->fault)
		snprintf(scope->fault, sizeof(scope->fault), "the key %.*s %s", (int)p->key.len, p->key.at, fault);
	if (scope->secrets)
		secrets_add(scope->secrets, "", bytes_text(out) + before, out->len - before);
	secret_hide(key.at);
	bytes_free(&key);
	bytes_free(&filled);
	free(text);
}

/* True for secrets and signatures, which are plain text, not JSON. */
static bool is_own_text(const struct placeholder *p)
{
	return p->kind == PLACEHOLDER_SECRET || p->kind == PLACEHOLDER_SIGNATURE;
}

/* Returns any other value as JSON. at is NULL if absent. */
static struct slice find_value(const struct placeholder *p, struct template_scope *scope, char number[24])
{
	int64_t n;
	char *pointer;
	struct slice value;

	if (p->kind == PLACEHOLDER_TIME) {
		scope->now_ms = scope->now_ms ? scope->now_ms : clock_ms(CLOCK_REALTIME);
		n = scope->now_ms / p->unit_ms + p->more;
	} else if (p->name.len == 7 && strncmp(p->name.at, "counter", 7) == 0 && scope->counter) {
		n = (*scope->counter)++;
	} else if (p->name.len == 4 && strncmp(p->name.at, "each", 4) == 0 && scope->each.at) {
		return scope->each;
	} else if (p->name.len && *p->name.at != '/') {
		return vars_get(scope->vars, p->name.at, p->name.len);
	} else {
		pointer = memory_strndup(p->name.at, p->name.len);
		value = json_find(scope->frame, pointer);
		scope->searched += scope->frame.len;
		free(pointer);
		return value;
	}
	return (struct slice){number, (size_t)snprintf(number, 24, "%lld", (long long)n)};
}

/* For a placeholder inside a text: strings are inserted as they are, null as nothing, and anything else as JSON. */
static void write_inside(struct bytes *out, const struct placeholder *p, struct template_scope *scope)
{
	struct arena a = {.room = NULL};
	struct slice value;
	char number[24];

	if (is_own_text(p) && scope->keeps_secrets)
		bytes_add(out, p->begin, (size_t)(p->end - p->begin));
	else if (p->kind == PLACEHOLDER_SIGNATURE)
		add_signature(out, p, scope);
	else if (p->kind == PLACEHOLDER_SECRET)
		add_secret(out, p->name, scope);
	if (is_own_text(p))
		return;
	value = find_value(p, scope, number);
	if (json_kind(value) == KIND_STRING) {
		value = json_text(value, &a);
		bytes_add(out, value.at, value.len);
	} else if (json_kind(value) > KIND_NULL) {
		json_write_plain(out, value);
	}
	arena_clear(&a);
}

/* For a text that is only a placeholder: the value keeps its type. */
static void write_value(struct bytes *out, const struct placeholder *p, struct template_scope *scope)
{
	struct bytes text = {NULL, 0, 0};
	struct slice value;
	char number[24];

	if (p->is_text || is_own_text(p)) {
		write_inside(&text, p, scope);
		json_write_string(out, bytes_text(&text), text.len);
		bytes_free(&text);
		return;
	}
	value = find_value(p, scope, number);
	bytes_add(out, value.at ? value.at : "null", value.at ? value.len : 4);
}

/* True if a server sent this value, or if it is base64: in a query, a plus sign would be read as a space. */
static bool is_foreign(const struct placeholder *p, const struct template_scope *scope)
{
	if (is_own_text(p))
		return p->kind == PLACEHOLDER_SIGNATURE && !scope->keeps_secrets;
	return !vars_is_first(scope->vars, p->name.at, p->name.len);
}

/* RFC 3986, section 2.1. A host may have a port, so : is kept. */
static void add_encoded(struct bytes *out, const char *text, size_t len)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:";
	char code[4];

	for (size_t i = 0; i < len; i++) {
		snprintf(code, sizeof(code), "%%%02X", (unsigned char)text[i]);
		if (text[i] && strchr(plain, text[i]))
			bytes_add_byte(out, text[i]);
		else
			bytes_add(out, code, 3);
	}
}

static void fill(struct bytes *out, const char *text, struct template_scope *scope, bool is_url)
{
	struct bytes value = {NULL, 0, 0};
	struct placeholder p;

	for (const char *whole = text; placeholder_find(text, &p); text = p.end) {
		bytes_add(out, text, (size_t)(p.begin - text));
		value.len = 0;
		write_inside(&value, &p, scope);
		if (is_url && p.begin != whole && is_foreign(&p, scope))
			add_encoded(out, value.at, value.len);
		else
			bytes_add(out, value.at, value.len);
	}
	bytes_free(&value);
	bytes_add_text(out, text);
}

/* NOLINTEND(misc-no-recursion) */

void template_fill(struct bytes *out, const char *text, struct template_scope *scope)
{
	fill(out, text, scope, scope->is_url);
}

void template_render_text(struct bytes *out, const char *text, struct template_scope *scope)
{
	struct bytes filled = {NULL, 0, 0};
	struct placeholder p;

	if (placeholder_find(text, &p) && p.begin == text && !*p.end) {
		write_value(out, &p, scope);
		return;
	}
	template_fill(&filled, text, scope);
	json_write_string(out, bytes_text(&filled), filled.len);
	bytes_free(&filled);
}

bool template_is_complete(const char *text, const struct vars *vars)
{
	struct placeholder p;

	for (; placeholder_find(text, &p); text = p.text.at ? p.text.at : p.end)
		if (p.kind == PLACEHOLDER_VALUE && *p.name.at != '/' &&
		    json_kind(vars_get(vars, p.name.at, p.name.len)) <= KIND_NULL)
			return false;
	return true;
}

/* --- trees --- */

/* Returns the chosen branch of {"if": "$x", "then": ..., "else": ...}, or t itself if it does not have this form. */
static const json_t *choose(const json_t *t, const struct template_scope *scope)
{
	const char *name = json_string_value(json_object_get(t, "if"));
	const json_t *yes = json_object_get(t, "then"), *no = json_object_get(t, "else");

	if (!name || !yes || !no || json_object_size(t) != 3)
		return t;
	name += strspn(name, "$");
	return json_kind(vars_get(scope->vars, name, strlen(name))) > KIND_NULL ? yes : no;
}

/* If t is a list, begins to walk it. Returns false if t is a plain template. */
static bool enter_list(struct template_walk *w, const json_t *t, const struct template_scope *scope)
{
	const char *name = json_string_value(json_object_get(t, "each"));
	const json_t *give = json_object_get(t, "give");
	struct slice array;

	if (!name || !give || json_object_size(t) != 2)
		return false;
	name += strspn(name, "$");
	array = vars_get(scope->vars, name, strlen(name));
	w->give = give;
	w->elements = json_walk(json_kind(array) == KIND_ARRAY ? array : (struct slice){NULL, 0});
	w->outer = scope->each;
	return true;
}

bool template_has_room(const struct bytes *out, struct template_scope *scope)
{
	if (out->len > TEMPLATE_MOST)
		snprintf(scope->fault, sizeof(scope->fault), "what is to be sent is longer than 16 MiB");
	else if (scope->searched > SEARCHED_MOST)
		snprintf(scope->fault, sizeof(scope->fault),
			 "a list to be sent needs too many values of a long message");
	return !*scope->fault;
}

const json_t *template_next(struct template_walk *w, struct template_scope *scope)
{
	for (;;) {
		const json_t *t;

		if (w->give && json_walk_next(&w->elements)) {
			scope->each = w->elements.value;
			return w->give;
		}
		if (w->give)
			scope->each = w->outer;
		w->give = NULL;
		t = json_array_get(w->array, w->next++);
		if (!t || !enter_list(w, t, scope))
			return t;
	}
}

/* NOLINTBEGIN(misc-no-recursion): not deeper than PATH_MAX_STEPS of profile_reader.h */

static bool render_object(struct bytes *out, const json_t *t, struct template_scope *scope)
{
	const char *name;
	json_t *value;
	bool has_one = false;

	bytes_add_byte(out, '{');
	json_object_foreach((json_t *)t, name, value)
	{
		size_t before = out->len;

		if (has_one)
			bytes_add_byte(out, ',');
		json_write_string(out, name, strlen(name));
		bytes_add_byte(out, ':');
		if (template_render(out, value, scope))
			has_one = true;
		else
			out->len = before;
	}
	bytes_add_byte(out, '}');
	return true;
}

static bool render_array(struct bytes *out, const json_t *t, struct template_scope *scope)
{
	struct template_walk w = {.array = t};
	bool has_one = false;
	const json_t *value;

	bytes_add_byte(out, '[');
	while (template_has_room(out, scope) && (value = template_next(&w, scope))) {
		size_t before = out->len;

		if (has_one)
			bytes_add_byte(out, ',');
		if (template_render(out, value, scope))
			has_one = true;
		else
			out->len = before;
	}
	bytes_add_byte(out, ']');
	return true;
}

static bool render_scalar(struct bytes *out, const json_t *t)
{
	char text[40];

	if (json_is_real(t)) {
		int n = snprintf(text, sizeof(text), "%.17g", json_real_value(t));

		if (!strpbrk(text, ".e"))
			n += snprintf(text + n, sizeof(text) - (size_t)n, ".0");
		json_write_canonical(out, (struct slice){text, (size_t)n});
	} else if (json_is_integer(t)) {
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(t));
		bytes_add_text(out, text);
	} else {
		bytes_add_text(out, json_is_true(t) ? "true" : json_is_false(t) ? "false" : "null");
	}
	return true;
}

bool template_render(struct bytes *out, const json_t *t, struct template_scope *scope)
{
	const json_t *chosen = choose(t, scope);

	if (chosen != t)
		return !json_is_null(chosen) && template_render(out, chosen, scope);
	if (json_is_object(t))
		return render_object(out, t, scope);
	if (json_is_array(t))
		return render_array(out, t, scope);
	if (!json_is_string(t))
		return render_scalar(out, t);
	template_render_text(out, json_string_value(t), scope);
	return true;
}

/* NOLINTEND(misc-no-recursion) */

/* Appends a text as it is, not as JSON. */
static void add_text(struct bytes *out, const char *text, struct template_scope *scope)
{
	struct bytes json = {NULL, 0, 0};
	struct arena a = {.room = NULL};
	struct slice value;

	template_render_text(&json, text, scope);
	value = bytes_slice(&json);
	if (json_kind(value) == KIND_STRING)
		value = json_text(value, &a);
	bytes_add(out, value.at, value.len);
	arena_clear(&a);
	bytes_free(&json);
}

bool template_render_message(struct bytes *out, const json_t *t, struct template_scope *scope)
{
	const json_t *chosen = choose(t, scope), *text = json_object_get(chosen, "text");
	const char *at = json_string_value(text), *end;

	if (!at || json_object_size(chosen) != 1 || scope->keeps_secrets)
		return template_render(out, t, scope);
	end = at + json_string_length(text);
	add_text(out, at, scope);
	for (at += strlen(at); at < end; at += strlen(at)) {
		bytes_add_byte(out, '\0');
		add_text(out, ++at, scope);
	}
	return true;
}
