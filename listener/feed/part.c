/* part.c evaluates the parts of ids, types, times, payloads and cursors. */
#include "feed/part.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/sha256.h"
#include "base/text.h"

static enum part_kind kind_of(const char *text)
{
	switch (*text) {
	case '=':
		return PART_LITERAL;
	case '$':
		return PART_VARIABLE;
	case '@':
		return PART_INDEX;
	case '^':
		return PART_FRAME;
	case '#':
		return PART_HASH;
	default:
		return PART_ELEMENT;
	}
}

void part_compile(struct part *p, const char *text, struct json_pointers *element, struct json_pointers *frame)
{
	*p = (struct part){.kind = PART_NONE, .slot = -1};
	if (!text)
		return;
	p->kind = kind_of(text);
	p->text = p->kind == PART_ELEMENT ? text : text + 1;
	if (p->kind == PART_LITERAL)
		json_write_string(&p->literal, p->text, strlen(p->text));
	else if ((p->kind == PART_ELEMENT || p->kind == PART_HASH) && element)
		p->slot = json_pointers_add(element, p->text);
	else if (p->kind == PART_FRAME && frame)
		p->slot = json_pointers_add(frame, p->text);
}

void part_free(struct part *p)
{
	bytes_free(&p->literal);
}

const char *part_name(const struct part *p)
{
	return p->text - (p->kind != PART_ELEMENT);
}

static struct slice look(const struct part *p, struct slice document, const struct slice *slots)
{
	return p->slot >= 0 ? slots[p->slot] : json_find(document, p->text);
}

static struct slice hash(struct slice value, struct arena *a)
{
	uint8_t digest[SHA256_BYTES];
	struct bytes canonical = {NULL, 0, 0};
	bool is_cut;
	char *text;

	if (!value.at)
		return value;
	is_cut = json_write_canonical(&canonical, value).is_cut;
	sha256(bytes_text(&canonical), canonical.len, digest);
	bytes_free(&canonical);
	if (is_cut)
		return (struct slice){NULL, 0};
	text = arena_alloc(a, 2 * SHA256_BYTES + 3);
	text[0] = '"';
	write_hex(text + 1, digest, SHA256_BYTES);
	text[2 * SHA256_BYTES + 1] = '"';
	return (struct slice){text, (size_t)2 * SHA256_BYTES + 2};
}

static struct slice print_index(size_t index, struct arena *a)
{
	char *text = arena_alloc(a, 24);

	return (struct slice){text, (size_t)snprintf(text, 24, "%zu", index)};
}

struct slice part_value(const struct part *p, const struct place *at)
{
	switch (p->kind) {
	case PART_NONE:
		break;
	case PART_ELEMENT:
		return look(p, at->element, at->element_slots);
	case PART_FRAME:
		return look(p, at->frame, at->frame_slots);
	case PART_LITERAL:
		return (struct slice){p->literal.at, p->literal.len};
	case PART_VARIABLE:
		return vars_get(at->vars, p->text, strlen(p->text));
	case PART_INDEX:
		return print_index(at->index, at->arena);
	case PART_HASH:
		return hash(look(p, at->element, at->element_slots), at->arena);
	}
	return (struct slice){NULL, 0};
}

struct slice part_text(struct slice v, struct arena *a)
{
	switch (json_kind(v)) {
	case KIND_STRING:
		return v.len > 2 ? json_text(v, a) : (struct slice){NULL, 0};
	case KIND_INTEGER:
		return v.len == 2 && memcmp(v.at, "-0", 2) == 0 ? (struct slice){"0", 1} : v;
	case KIND_TRUE:
	case KIND_FALSE:
		return v;
	case KIND_MISSING:
	case KIND_NULL:
	case KIND_REAL:
	case KIND_ARRAY:
	case KIND_OBJECT:
		break;
	}
	return (struct slice){NULL, 0};
}
