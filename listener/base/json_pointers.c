/* json_pointers.c owns a tree of pointers and the pass over a document that fills their slots. It skips values that no
 * pointer leads into. */
#include "base/json_pointers.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

#define NONE (-1)

/* A step of one or more pointers. The root has none. */
struct node {
	struct json_step step;
	int child;     /* first child, or NONE */
	int next;      /* next sibling, or NONE */
	int slot;      /* NONE: no pointer ends here */
	uint64_t seen; /* the last object that had this member, by its number in objects */
};

struct json_pointers {
	struct node *nodes; /* [0] is the root */
	int count;
	struct slice *slots;
	int slot_count;
	uint64_t repeated; /* a bit for each of the first 64 slots */
	uint64_t objects;  /* objects read so far */
};

static int add_node(struct json_pointers *p, struct json_step step)
{
	p->nodes = memory_realloc(p->nodes, (size_t)(p->count + 1) * sizeof(*p->nodes));
	p->nodes[p->count] = (struct node){step, NONE, NONE, NONE, 0};
	return p->count++;
}

struct json_pointers *json_pointers_new(void)
{
	struct json_pointers *p = memory_calloc(1, sizeof(*p));

	add_node(p, (struct json_step){NULL, 0, -1});
	return p;
}

void json_pointers_free(struct json_pointers *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->count; i++)
		free(p->nodes[i].step.name);
	free(p->nodes);
	free(p->slots);
	free(p);
}

/* Returns the child of a node for a step. Takes ownership of the step. */
static int add_step(struct json_pointers *p, int parent, struct json_step step)
{
	int child = p->nodes[parent].child;

	for (; child != NONE; child = p->nodes[child].next) {
		const struct json_step *other = &p->nodes[child].step;

		if (other->len == step.len && memcmp(other->name, step.name, step.len) == 0) {
			free(step.name);
			return child;
		}
	}
	child = add_node(p, step);
	p->nodes[child].next = p->nodes[parent].child;
	p->nodes[parent].child = child;
	return child;
}

int json_pointers_add(struct json_pointers *p, const char *pointer)
{
	struct json_step steps[JSON_STEPS_MAX];
	int count = json_steps(pointer, steps, JSON_STEPS_MAX), node = 0;

	for (int i = 0; i < count; i++)
		node = add_step(p, node, steps[i]);
	if (p->nodes[node].slot == NONE) {
		p->slots = memory_realloc(p->slots, (size_t)(p->slot_count + 1) * sizeof(*p->slots));
		p->nodes[node].slot = p->slot_count++;
	}
	return p->nodes[node].slot;
}

const struct slice *json_pointers_slots(const struct json_pointers *p)
{
	return p->slots;
}

uint64_t json_pointers_repeated(const struct json_pointers *p)
{
	return p->repeated;
}

/* --- the walk --- */

/* NOLINTBEGIN(misc-no-recursion): not deeper than JSON_STEPS_MAX */

static const char *walk(struct json_pointers *p, int node, const char *at, const char *end);

/* The node's member is repeated: drops what was found in the earlier one. */
static void forget(struct json_pointers *p, int node)
{
	int slot = p->nodes[node].slot;

	if (slot != NONE)
		p->slots[slot] = (struct slice){NULL, 0};
	if (slot != NONE && slot < 64)
		p->repeated |= UINT64_C(1) << slot;
	for (int child = p->nodes[node].child; child != NONE; child = p->nodes[child].next)
		forget(p, child);
}

static int find_member(const struct json_pointers *p, int node, struct slice name, bool has_escape)
{
	int child = p->nodes[node].child;

	for (; child != NONE; child = p->nodes[child].next) {
		const struct json_step *step = &p->nodes[child].step;

		if (has_escape ? json_is_name(name, true, step->name, step->len)
			       : step->len == name.len && memcmp(step->name, name.at, name.len) == 0)
			break;
	}
	return child;
}

static const char *walk_object(struct json_pointers *p, int node, const char *at, const char *end)
{
	uint64_t object = ++p->objects;

	for (at = json_next(at + 1, end); *at != '}'; at = json_next(at, end)) {
		const char *name = at + 1;
		bool has_escape;
		int child;

		at = json_skip_string(at, &has_escape);
		child = find_member(p, node, (struct slice){name, (size_t)(at - name - 1)}, has_escape);
		at = json_next(at, end);
		if (child == NONE) {
			at = json_skip(at, end);
			continue;
		}
		if (p->nodes[child].seen == object)
			forget(p, child);
		p->nodes[child].seen = object;
		at = walk(p, child, at, end);
	}
	return at + 1;
}

static const char *walk_array(struct json_pointers *p, int node, const char *at, const char *end)
{
	at = json_next(at + 1, end);
	for (long i = 0; *at != ']'; i++, at = json_next(at, end)) {
		int child = p->nodes[node].child;

		while (child != NONE && p->nodes[child].step.index != i)
			child = p->nodes[child].next;
		at = child == NONE ? json_skip(at, end) : walk(p, child, at, end);
	}
	return at + 1;
}

static const char *walk(struct json_pointers *p, int node, const char *at, const char *end)
{
	const struct node *n = &p->nodes[node];
	const char *begin = at;

	if (n->child == NONE || (*at != '{' && *at != '['))
		at = json_skip(at, end);
	else
		at = *at == '{' ? walk_object(p, node, at, end) : walk_array(p, node, at, end);
	if (n->slot != NONE)
		p->slots[n->slot] = (struct slice){begin, (size_t)(at - begin)};
	return at;
}

/* NOLINTEND(misc-no-recursion) */

const char *json_pointers_read(struct json_pointers *p, const char *at, const char *end)
{
	if (p->slot_count)
		memset(p->slots, 0, (size_t)p->slot_count * sizeof(*p->slots));
	p->repeated = 0;
	return walk(p, 0, at, end);
}
