/* profile_check.c checks pointers, parts, conditions and templates in profiles. feed/ interprets them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/profile_placeholder.h"
#include "config/profile_reader.h"

/* --- errors --- */

static struct slice find_child(struct slice value, const char *name, size_t index)
{
	struct json_step step = {(char *)name, name ? strlen(name) : 0, (long)index};

	if (json_kind(value) != (name ? KIND_OBJECT : KIND_ARRAY))
		return (struct slice){NULL, 0};
	return json_child(value, &step);
}

static int count_lines(const char *from, const char *to)
{
	int lines = 0;

	for (; from < to; from++)
		lines += *from == '\n';
	return lines;
}

/* Returns the line of the value at r's path, or of its nearest container; 0 if there is no text. */
static int find_line(const struct profile_reader *r, const struct profile_origin *origin)
{
	struct slice value, found;

	if (!origin->value.at || json_check(origin->value.at, origin->value.len, &value))
		return 0;
	for (size_t i = 0; i < r->depth && i < PATH_MAX_STEPS; i++) {
		found = find_child(value, r->path[i].name, r->path[i].index);
		if (!found.at)
			break;
		value = found;
	}
	return origin->line + count_lines(origin->value.at, value.at);
}

/* Returns the origin of a value in text. value.at is NULL if it is absent. */
static struct profile_origin make_origin(const char *file, const char *path, struct slice text, struct slice value)
{
	struct profile_origin origin = {.file = file, .path = path, .value = value};

	if (value.at)
		origin.line = 1 + count_lines(text.at, value.at);
	return origin;
}

struct profile_origin profile_origin_of_member(const char *file, struct slice text, const char *key)
{
	struct slice value;

	return make_origin(file, key, text,
			   json_check(text.at, text.len, &value) ? (struct slice){NULL, 0} : find_child(value, key, 0));
}

struct profile_origin profile_origin_of_source(const char *file, struct slice text, size_t i, char *path, size_t size)
{
	struct slice value = profile_origin_of_member(file, text, "sources").value;

	snprintf(path, size, "sources[%zu]", i);
	return make_origin(file, path, text, value.at ? find_child(value, NULL, i) : value);
}

const struct profile_origin *profile_find_origin(const struct profile_reader *r)
{
	const json_t *found = r->overrides;

	if (found && r->depth && r->path[0].name)
		found = json_object_get(found, r->path[0].name);
	if (found && r->depth > 1 && r->path[0].name && strcmp(r->path[0].name, "vars") == 0)
		found = json_object_get(found, r->path[1].name);
	return found ? &r->given : &r->own;
}

/* Writes a path such as rules[2].when./type. */
static void write_path(const struct profile_reader *r, const char *prefix, char *out, size_t size)
{
	size_t used = (size_t)snprintf(out, size, "%s", prefix);

	for (size_t i = 0; i < r->depth && i < PATH_MAX_STEPS && used < size; i++)
		if (r->path[i].name)
			used += (size_t)snprintf(out + used, size - used, "%s%.60s", used ? "." : "", r->path[i].name);
		else
			used += (size_t)snprintf(out + used, size - used, "[%zu]", r->path[i].index);
}

static int write_fault(struct profile_fault *fault, const char *source, int line, const char *path, const char *what)
{
	char where[40] = "";

	if (line > 0)
		snprintf(where, sizeof(where), ", line %d", line);
	snprintf(fault->text, sizeof(fault->text), "%.120s%s%s%s: %s", source, where, *path ? ", " : "", path, what);
	make_line(fault->text);
	return -1;
}

/* Fills fault with r's position and the formatted sentence. */
static __attribute__((format(printf, 3, 0))) void write_error(const struct profile_reader *r,
							      struct profile_fault *fault, const char *format,
							      va_list ap)
{
	const struct profile_origin *origin = profile_find_origin(r);
	char what[300], path[160];

	vsnprintf(what, sizeof(what), format, ap);
	write_path(r, origin->path, path, sizeof(path));
	write_fault(fault, origin->file, find_line(r, origin), path, what);
}

int profile_fail(struct profile_reader *r, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	write_error(r, r->fault, format, ap);
	va_end(ap);
	return -1;
}

int profile_doubt(struct profile_reader *r, const char *format, ...)
{
	va_list ap;

	if (*r->doubt.text)
		return 0;
	va_start(ap, format);
	write_error(r, &r->doubt, format, ap);
	va_end(ap);
	return 0;
}

int profile_fail_at(struct profile_fault *fault, const char *source, int line, const char *format, ...)
{
	char what[300];
	va_list ap;

	va_start(ap, format);
	vsnprintf(what, sizeof(what), format, ap);
	va_end(ap);
	return write_fault(fault, source, line, "", what);
}

void profile_enter(struct profile_reader *r, const char *name, size_t index)
{
	if (r->depth < PATH_MAX_STEPS) {
		r->path[r->depth].name = name;
		r->path[r->depth].index = index;
	}
	r->depth++;
}

void profile_leave(struct profile_reader *r)
{
	r->depth--;
}

static int visit(struct profile_reader *r, const char *name, size_t index, const json_t *item, profile_each_fn *each,
		 void *arg)
{
	int result;

	profile_enter(r, name, index);
	result = each(r, name, item, arg);
	profile_leave(r);
	return result;
}

int profile_each(struct profile_reader *r, const json_t *value, profile_each_fn *each, void *arg)
{
	const char *name;
	json_t *item;
	size_t i;

	json_array_foreach(value, i, item) if (visit(r, NULL, i, item, each, arg)) return -1;
	json_object_foreach((json_t *)value, name, item) if (visit(r, name, 0, item, each, arg)) return -1;
	return 0;
}

/* --- suggestions --- */

struct nearest profile_nearest(const char *word)
{
	struct nearest n;

	nearest_init(&n, word, strlen(word));
	n.distance = NEAREST_MISTAKES(strlen(word) / 2 + 1); /* profiles have few keys, which differ a lot */
	return n;
}

const char *profile_meant(const struct nearest *n)
{
	static _Thread_local char text[120];

	*text = '\0';
	if (n->best)
		snprintf(text, sizeof(text), "; did you mean \"%.90s\"?", n->best);
	return text;
}

const char *profile_meant_member(const json_t *object, const char *word)
{
	struct nearest n = profile_nearest(word);
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) nearest_offer(&n, name);
	return profile_meant(&n);
}

/* --- variables --- */

static void collect_names(json_t *into, const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) json_object_set_new(into, name, json_null());
}

json_t *profile_collect_variables(const json_t *root)
{
	static const char *const of_acks[] = {"event_id", "reason", "n"}; /* set by intake/producer_profile.c */
	static const char *const of_fill[] = {"gap_key", "gap_from", "gap_to",
					      "gap_after"}; /* variables that intake/fill.c sets */
	json_t *all = json_object(), *rule, *call;
	size_t i, j;

	if (json_object_get(root, "cursor"))
		json_object_set_new(all, "cursor", json_null());
	json_object_set_new(all, "counter", json_null());
	json_object_set_new(all, "each", json_null());
	if (json_object_get(root, "ack") || json_object_get(root, "ack_duplicate") ||
	    json_object_get(root, "ack_error"))
		for (size_t n = 0; n < sizeof(of_acks) / sizeof(of_acks[0]); n++)
			json_object_set_new(all, of_acks[n], json_null());
	if (json_object_get(root, "fill"))
		for (size_t n = 0; n < sizeof(of_fill) / sizeof(of_fill[0]); n++)
			json_object_set_new(all, of_fill[n], json_null());
	collect_names(all, json_object_get(root, "vars"));
	collect_names(all, json_object_get(root, "var_http"));
	collect_names(all, json_object_get(json_object_get(root, "url_http"), "capture"));
	json_array_foreach(json_object_get(root, "rules"), i, rule)
	{
		collect_names(all, json_object_get(rule, "capture"));
		json_array_foreach(json_object_get(rule, "http"), j, call)
			collect_names(all, json_object_get(call, "capture"));
	}
	return all;
}

/* Environment variables are usually in capital letters, those of profiles are not. */
static bool is_in_capitals(const char *word)
{
	return *word && !word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
}

int profile_check_variable(struct profile_reader *r, const char *name, size_t len)
{
	AUTO_FREE char *word = memory_strndup(name, len);

	if (json_object_get(r->variables, word))
		return 0;
	if (strchr(word, ':'))
		return profile_fail(r,
				    "\"%.60s\" is neither a variable nor one of text: env: file: hmac_sha256_hex: "
				    "hmac_sha256_base64: rsa_pss_sha256_base64:",
				    word);
	if (is_in_capitals(word))
		return profile_doubt(r,
				     "nothing sets a variable \"%.60s\"; a variable of the environment is ${env:%.60s}",
				     word, word);
	return profile_doubt(r, "nothing sets a variable \"%.60s\"%s", word,
			     strcmp(word, "cursor") == 0 ? ": the profile has no cursor"
							 : profile_meant_member(r->variables, word));
}

/* --- pointers and parts --- */

bool profile_is_token(const char *text)
{
	return *text &&
	       !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~")];
}

bool profile_is_pointer(const char *text)
{
	struct json_step steps[JSON_STEPS_MAX];
	int count = json_steps(text, steps, JSON_STEPS_MAX);

	json_steps_free(steps, count);
	return count >= 0;
}

const char *profile_find_star(const char *pointer)
{
	const char *star = strstr(pointer, "/*");

	while (star && star[2] && star[2] != '/')
		star = strstr(star + 1, "/*");
	return star;
}

int profile_check_steps(struct profile_reader *r, const char *pointer)
{
	if (profile_is_pointer(pointer))
		return 0;
	return profile_fail(r,
			    "\"%.80s\" is not a JSON pointer: it is \"\" or begins with /, has at most %d steps, and ~ "
			    "only as ~0 and ~1",
			    pointer, JSON_STEPS_MAX);
}

int profile_check_pointer(struct profile_reader *r, const char *pointer)
{
	const char *star = profile_find_star(pointer);

	if (profile_check_steps(r, pointer))
		return -1;
	return star ? profile_doubt(r,
				    "\"%.80s\": * means each element only in explode; set explode to \"%.*s\", and "
				    "this to \"%.60s\"",
				    pointer, (int)(star - pointer) + 2, pointer, star + 2)
		    : 0;
}

int profile_check_part(struct profile_reader *r, const char *part)
{
	if (*part == '=' || strcmp(part, "@") == 0)
		return 0;
	if (*part == '$')
		return profile_check_variable(r, part + 1, strlen(part + 1));
	if (*part == '^' || *part == '#')
		return profile_check_pointer(r, part + 1);
	if (*part && *part != '/')
		return profile_fail(r,
				    "\"%.80s\" is not a part: it is a pointer (/x of the element, ^/x of the message), "
				    "=text, $variable, @ (the index) or #/x (the hash)",
				    part);
	return profile_check_pointer(r, part);
}

/* --- conditions --- */

static int check_operator(struct profile_reader *r, const char *name, const json_t *value, void *arg)
{
	const char *text = json_string_value(value);

	(void)arg;
	if (strcmp(name, "not") == 0)
		return 0;
	if (strcmp(name, "exists") == 0)
		return json_is_boolean(value) ? 0 : profile_fail(r, "must be true or false");
	if (strcmp(name, "prefix") == 0)
		return text ? 0 : profile_fail(r, "must be a string");
	if (strcmp(name, "type") == 0)
		return text && is_one_of("object array string boolean integer", text)
			       ? 0
			       : profile_fail(r, "must be object, array, string, boolean or integer");
	if (strcmp(name, "gte") == 0 || strcmp(name, "lt") == 0)
		return json_is_number(value) ? 0 : profile_fail(r, "must be a number");
	return profile_fail(r, "is not a condition: these are exists, not, prefix, type, gte and lt");
}

static int check_condition(struct profile_reader *r, const char *pointer, const json_t *want, void *arg)
{
	if (profile_check_pointer(r, pointer))
		return -1;
	if (json_is_array(want) && json_array_size(want) == 0)
		return profile_fail(r, "an empty list matches nothing");
	return json_is_object(want) ? profile_each(r, want, check_operator, arg) : 0;
}

int profile_check_conditions(struct profile_reader *r, const json_t *when)
{
	return json_is_object(when) ? profile_each(r, when, check_condition, NULL)
				    : profile_fail(r, "must be an object of pointers and conditions");
}

/* --- templates --- */

static int check_value(struct profile_reader *r, const struct placeholder *p, bool has_frame)
{
	AUTO_FREE char *pointer = memory_strndup(p->name.at, p->name.len);

	if (p->name.len && *p->name.at != '/')
		return profile_check_variable(r, p->name.at, p->name.len);
	if (!has_frame)
		return profile_doubt(r, "${%.*s}: a template here has no frame to point into", (int)p->name.len,
				     p->name.at);
	return profile_check_pointer(r, pointer);
}

static int check_secret(struct profile_reader *r, struct slice name)
{
	return name.at[name.len - 1] != ':' ? 0 : profile_fail(r, "${%.*s} has no name", (int)name.len, name.at);
}

/* NOLINTBEGIN(misc-no-recursion): a signature holds no other */

static int check_signed(struct profile_reader *r, struct slice text, bool has_frame)
{
	AUTO_FREE char *copy = memory_strndup(text.at, text.len);

	return strstr(copy, "${hmac_") || strstr(copy, "${rsa_")
		       ? profile_fail(r, "\"%.80s\": a signature in a signature", copy)
		       : profile_check_template_text(r, copy, has_frame);
}

static int check_placeholder(struct profile_reader *r, const struct placeholder *p, bool has_frame)
{
	switch (p->kind) {
	case PLACEHOLDER_VALUE:
		return check_value(r, p, has_frame);
	case PLACEHOLDER_SECRET:
		return check_secret(r, p->name);
	case PLACEHOLDER_SIGNATURE:
		return check_secret(r, p->key) || check_signed(r, p->text, has_frame);
	case PLACEHOLDER_TIME:
		break;
	}
	return json_object_getn(r->variables, p->name.at, p->name.len)
		       ? profile_fail(r, "%.*s is the time: give the variable another name", (int)p->name.len,
				      p->name.at)
		       : 0;
}

int profile_check_template_text(struct profile_reader *r, const char *text, bool has_frame)
{
	struct placeholder p;

	for (; placeholder_find(text, &p); text = p.end)
		if (check_placeholder(r, &p, has_frame))
			return -1;
	return p.fault ? profile_fail(r, "\"%.80s\": %s", p.begin, p.fault) : 0;
}

/* NOLINTEND(misc-no-recursion) */

/* The text of {"text": T} may hold \u0000. */
static int check_whole_text(struct profile_reader *r, const json_t *text, bool has_frame)
{
	const char *at = json_string_value(text), *end = at + json_string_length(text);

	for (; at < end; at += strlen(at) + 1)
		if (profile_check_template_text(r, at, has_frame))
			return -1;
	return 0;
}

static int check_named(struct profile_reader *r, const json_t *variable)
{
	const char *name = json_string_value(variable);

	if (!name)
		return profile_fail(r, "must be a string, \"$variable\"");
	name += strspn(name, "$");
	return profile_check_variable(r, name, strlen(name));
}

/* NOLINTBEGIN(misc-no-recursion): at most PATH_MAX_STEPS levels */

struct part {
	bool has_frame;
	const char *named; /* the member that names a variable; NULL: none */
};

static int check_part_of(struct profile_reader *r, const char *name, const json_t *value, void *arg)
{
	const struct part *part = arg;

	return name && part->named && strcmp(name, part->named) == 0
		       ? check_named(r, value)
		       : profile_check_template(r, value, part->has_frame);
}

static int check_members(struct profile_reader *r, const json_t *t, bool has_frame)
{
	const json_t *text = json_object_get(t, "text");
	bool is_choice = json_object_size(t) == 3 && json_object_get(t, "if") && json_object_get(t, "then") &&
			 json_object_get(t, "else");
	bool is_list = json_object_size(t) == 2 && json_object_get(t, "each") && json_object_get(t, "give");
	struct part part = {has_frame, is_choice ? "if" : is_list ? "each" : NULL};

	if (json_is_string(text) && json_object_size(t) == 1)
		return check_whole_text(r, text, has_frame);
	if (is_list && r->path[r->depth - 1].name)
		return profile_fail(r, "\"each\" and \"give\" make a list, which must be in an array");
	return profile_each(r, t, check_part_of, &part);
}

int profile_check_template(struct profile_reader *r, const json_t *t, bool has_frame)
{
	struct part part = {has_frame, NULL};

	if (r->depth >= PATH_MAX_STEPS)
		return profile_fail(r, "a template is nested too deeply");
	if (json_is_string(t) && strlen(json_string_value(t)) != json_string_length(t))
		return profile_fail(r, "a template must not hold \\u0000");
	if (json_is_string(t))
		return profile_check_template_text(r, json_string_value(t), has_frame);
	return json_is_object(t) ? check_members(r, t, has_frame) : profile_each(r, t, check_part_of, &part);
}

/* NOLINTEND(misc-no-recursion) */
