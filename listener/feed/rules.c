/* rules.c compiles and matches the rules of a profile. One pass over a frame finds the pointers of all rules, and one
 * pass over each element finds those of the element. */
#include "feed/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"

/* --- compiling --- */

/* Splits explode at its first *: the container is what comes before, the steps are the rest. */
static void compile_explode(struct rule *rule, struct json_pointers *frame)
{
	const char *text = rule->profile->explode;
	struct json_step steps[JSON_STEPS_MAX];
	int count = json_steps(text, steps, JSON_STEPS_MAX), before = 0;
	char *container;

	while (before < count && strcmp(steps[before].name, "*") != 0) {
		text += 1 + strcspn(text + 1, "/");
		before++;
	}
	container = memory_strndup(rule->profile->explode, (size_t)(text - rule->profile->explode));
	rule->container = json_pointers_add(frame, container);
	free(container);
	json_steps_free(steps, before);
	rule->step_count = count - before;
	rule->steps = memory_calloc((size_t)rule->step_count + 1, sizeof(*rule->steps));
	memcpy(rule->steps, steps + before, (size_t)rule->step_count * sizeof(*steps));
}

static void compile_ids(struct rule *rule, struct json_pointers *frame)
{
	size_t i, j;
	json_t *parts, *part;

	rule->ids = memory_calloc(json_array_size(rule->profile->id) + 1, sizeof(*rule->ids));
	json_array_foreach(rule->profile->id, i, parts)
	{
		struct alternative *a = &rule->ids[rule->id_count++];

		a->parts = memory_calloc(json_array_size(parts), sizeof(*a->parts));
		json_array_foreach(parts, j, part)
			part_compile(&a->parts[a->count++], json_string_value(part), rule->element, frame);
	}
}

/* Captures are searched only in matching frames, so their pointers are not added to the pass over every frame. */
static void compile_captures(struct rule *rule)
{
	const json_t *capture = rule->profile->capture;
	const char *name;
	json_t *part;

	rule->captures = memory_calloc(json_object_size(capture) + 1, sizeof(*rule->captures));
	json_object_foreach((json_t *)capture, name, part)
	{
		struct capture *c = &rule->captures[rule->capture_count++];

		c->name = name;
		part_compile(&c->part, json_string_value(part), NULL, NULL);
	}
}

/* An empty text means no part, except for the payload. */
static const char *unless_empty(const char *part)
{
	return part && *part ? part : NULL;
}

static void compile_event(struct rule *rule, const struct profile *p, struct json_pointers *frame)
{
	const struct profile_rule *of = rule->profile;

	if (of->explode && *of->explode) {
		rule->element = json_pointers_new();
		compile_explode(rule, frame);
	}
	conditions_compile(&rule->where, of->where, rule->element);
	compile_ids(rule, frame);
	part_compile(&rule->type, unless_empty(of->type), rule->element, frame);
	part_compile(&rule->time, unless_empty(of->time), rule->element, frame);
	part_compile(&rule->payload, of->payload, rule->element, frame);
	part_compile(&rule->gap_key, p->gap.key, rule->element, frame);
	part_compile(&rule->gap_seq, p->gap.seq, rule->element, frame);
}

static void share(struct rule *rule, const struct part *p)
{
	if (p->kind != PART_FRAME && p->kind != PART_VARIABLE)
		return;
	rule->shared = memory_realloc(rule->shared, (rule->shared_count + 1) * sizeof(*rule->shared));
	rule->shared[rule->shared_count++] = p;
}

static void collect_shared(struct rule *rule)
{
	const struct part *parts[] = {&rule->type,   &rule->time,    &rule->payload,
				      &rule->cursor, &rule->gap_key, &rule->gap_seq};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		share(rule, parts[i]);
	for (size_t i = 0; i < rule->id_count; i++)
		for (size_t j = 0; j < rule->ids[i].count; j++)
			share(rule, &rule->ids[i].parts[j]);
}

static void compile(struct rule *rule, const struct profile_rule *of, const struct profile *p,
		    struct json_pointers *frame)
{
	rule->profile = of;
	rule->element = frame;
	rule->container = -1;
	conditions_compile(&rule->when, of->when, frame);
	compile_captures(rule);
	if (of->action == ACTION_EVENT)
		compile_event(rule, p, frame);
	part_compile(&rule->cursor, unless_empty(of->cursor), rule->element, frame);
	collect_shared(rule);
}

struct rules *rules_new(const struct profile *p)
{
	struct rules *r = memory_calloc(1, sizeof(*r));

	r->frame = json_pointers_new();
	r->items = memory_calloc(p->rule_count + 1, sizeof(*r->items));
	for (size_t i = 0; i < p->rule_count; i++)
		if (!p->rules[i].text)
			compile(&r->items[r->count++], &p->rules[i], p, r->frame);
	compile(&r->items[r->count], &p->fallback, p, r->frame);
	for (size_t i = 0; i < p->rule_count; i++)
		if (p->rules[i].text)
			compile(&r->items[r->count + 1 + r->text_count++], &p->rules[i], p, r->frame);
	return r;
}

static void free_rule(struct rule *rule, const struct json_pointers *frame)
{
	conditions_free(&rule->when);
	conditions_free(&rule->where);
	for (size_t i = 0; i < rule->id_count; i++) {
		for (size_t j = 0; j < rule->ids[i].count; j++)
			part_free(&rule->ids[i].parts[j]);
		free(rule->ids[i].parts);
	}
	for (size_t i = 0; i < rule->capture_count; i++)
		part_free(&rule->captures[i].part);
	part_free(&rule->type);
	part_free(&rule->time);
	part_free(&rule->payload);
	part_free(&rule->cursor);
	part_free(&rule->gap_key);
	part_free(&rule->gap_seq);
	json_steps_free(rule->steps, rule->step_count);
	free(rule->steps);
	free(rule->shared);
	free(rule->ids);
	free(rule->captures);
	if (rule->element != frame)
		json_pointers_free(rule->element);
}

void rules_free(struct rules *r)
{
	if (!r)
		return;
	for (size_t i = 0; i <= r->count + r->text_count; i++)
		free_rule(&r->items[i], r->frame);
	json_pointers_free(r->frame);
	free(r->items);
	free(r);
}

/* --- matching --- */

const struct rule *rules_match(struct rules *r, struct slice frame)
{
	const struct slice *slots;
	size_t i = 0;

	json_pointers_read(r->frame, frame.at, frame.at + frame.len);
	slots = json_pointers_slots(r->frame);
	while (i < r->count && !conditions_hold(&r->items[i].when, slots))
		i++;
	return &r->items[i];
}

const struct rule *rules_match_text(const struct rules *r, struct slice message)
{
	for (size_t i = 0; i < r->text_count; i++) {
		const struct rule *rule = &r->items[r->count + 1 + i];
		const json_t *prefix = json_object_get(rule->profile->text, "prefix");
		const json_t *text = prefix ? prefix : rule->profile->text;
		size_t len = json_string_length(text);

		if ((prefix ? len <= message.len : len == message.len) &&
		    memcmp(json_string_value(text), message.at, len) == 0)
			return rule;
	}
	return NULL;
}

/* --- elements --- */

struct explosion {
	const struct rule *rule;
	void (*on_element)(void *ctx, struct slice element, size_t index);
	void *ctx;
};

/* NOLINTBEGIN(misc-no-recursion): not deeper than JSON_STEPS_MAX */

static void explode(const struct explosion *x, int level, struct slice value, size_t index);

/* Reads the elements of an array. The end of each is known only after reading it. */
static void read_elements(const struct explosion *x, struct slice array)
{
	const char *end = array.at + array.len, *at = json_next(array.at + 1, end);

	for (size_t i = 0; *at != ']'; i++) {
		const char *begin = at;

		at = json_pointers_read(x->rule->element, at, end);
		x->on_element(x->ctx, (struct slice){begin, (size_t)(at - begin)}, i);
		at = json_next(at, end);
	}
}

static void explode_array(const struct explosion *x, int level, struct slice array)
{
	struct json_walk w = json_walk(array);

	if (level + 1 == x->rule->step_count) {
		read_elements(x, array);
		return;
	}
	for (size_t i = 0; json_walk_next(&w); i++)
		explode(x, level + 1, w.value, i);
}

static void explode(const struct explosion *x, int level, struct slice value, size_t index)
{
	const struct json_step *step = &x->rule->steps[level];

	if (!value.at)
		return;
	if (level == x->rule->step_count) {
		json_pointers_read(x->rule->element, value.at, value.at + value.len);
		x->on_element(x->ctx, value, index);
	} else if (strcmp(step->name, "*") != 0) {
		explode(x, level + 1, json_child(value, step), index);
	} else if (json_kind(value) == KIND_ARRAY) {
		explode_array(x, level, value);
	}
}

/* NOLINTEND(misc-no-recursion) */

bool rule_explode(const struct rules *r, const struct rule *rule, struct slice frame,
		  void (*on_element)(void *ctx, struct slice element, size_t index), void *ctx)
{
	struct explosion x = {rule, on_element, ctx};
	struct slice top = rule->container < 0 ? frame : json_pointers_slots(r->frame)[rule->container];

	if (rule->container < 0)
		on_element(ctx, frame, 0);
	else
		explode(&x, 0, top, 0);
	return top.at && (!rule->step_count || *top.at == '[' || *top.at == 'n');
}

/* --- ids --- */

static void add_text(struct bytes *id, struct slice text, bool is_escaped)
{
	char *out;

	if (!is_escaped || (!memchr(text.at, '|', text.len) && !memchr(text.at, '\\', text.len))) {
		bytes_add(id, text.at, text.len);
		return;
	}
	out = bytes_reserve(id, 2 * text.len);
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] == '|' || text.at[i] == '\\')
			*out++ = '\\';
		*out++ = text.at[i];
	}
	id->len = (size_t)(out - id->at);
}

/* Appends what is wrong with a part to why. */
static void blame(const struct part *p, const struct place *at, struct bytes *why)
{
	struct slice value = part_value(p, at);

	if (why->len)
		bytes_add_text(why, ", ");
	bytes_add_text(why, part_name(p));
	bytes_add_text(why, !value.at                         ? " is missing"
			    : json_kind(value) == KIND_STRING ? " is empty"
							      : " is neither a string nor an integer");
}

/* Joins an alternative into id. Returns false and adds to why if a part is missing. */
static bool join(const struct alternative *a, const char *with, const struct place *at, struct bytes *id,
		 struct bytes *why)
{
	bool is_escaped = strcmp(with, "|") == 0;

	id->len = 0;
	for (size_t i = 0; i < a->count; i++) {
		struct slice text = part_text(part_value(&a->parts[i], at), at->arena);

		if (!text.at) {
			blame(&a->parts[i], at, why);
			return false;
		}
		if (i)
			bytes_add_text(id, with);
		add_text(id, text, is_escaped);
	}
	return true;
}

static void shorten(struct bytes *id)
{
	uint8_t digest[SHA256_BYTES];

	sha256(bytes_text(id), id->len, digest);
	id->len = 0;
	write_hex(bytes_reserve(id, (size_t)2 * SHA256_BYTES), digest, SHA256_BYTES);
	id->len = (size_t)2 * SHA256_BYTES;
}

size_t rule_shared(const struct rule *rule, const struct place *at)
{
	size_t sum = 0;

	for (size_t i = 0; i < rule->shared_count; i++)
		sum += part_value(rule->shared[i], at).len;
	return sum;
}

bool rule_id(const struct rule *rule, const struct place *at, size_t most, struct bytes *id, struct bytes *why)
{
	size_t i = 0;

	why->len = 0;
	while (i < rule->id_count && !join(&rule->ids[i], rule->profile->id_join, at, id, why))
		i++;
	if (i == rule->id_count) {
		bytes_add_text(why, ": the event has no id");
		return false;
	}
	if (id->len > most)
		shorten(id);
	return true;
}
