/* cursors.c owns the cursors that are on their way to Postgres. There are few: one per source, or one per host of a
 * source. */
#include "store/cursors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct slice copy(struct slice s)
{
	return s.at ? (struct slice){memcpy(memory_alloc(s.len + 1), s.at, s.len), s.len} : s;
}

static void replace(struct slice *old, struct slice s)
{
	free((char *)old->at);
	*old = copy(s);
}

static struct kept_cursor *find(struct cursors *c, const struct cursor *cursor)
{
	for (size_t i = 0; i < c->count; i++)
		if (strcmp(c->items[i].cursor.source, cursor->source) == 0 &&
		    strcmp(c->items[i].cursor.scope, cursor->scope) == 0)
			return &c->items[i];
	c->items = memory_realloc(c->items, (c->count + 1) * sizeof(*c->items));
	c->items[c->count] = (struct kept_cursor){
		.cursor = {.source = memory_strdup(cursor->source), .scope = memory_strdup(cursor->scope)}};
	return &c->items[c->count++];
}

static bool is_same(struct slice a, struct slice b)
{
	return a.len == b.len && (!a.len || memcmp(a.at, b.at, a.len) == 0);
}

void cursors_put(struct cursors *c, const struct cursor *cursor)
{
	struct kept_cursor *k = find(c, cursor);

	if (is_same(k->cursor.value, cursor->value) && is_same(k->cursor.variables, cursor->variables))
		return;
	if (!k->cursor.kind || strcmp(k->cursor.kind, cursor->kind) != 0) {
		free((char *)k->cursor.kind);
		k->cursor.kind = memory_strdup(cursor->kind);
	}
	replace(&k->cursor.value, cursor->value);
	replace(&k->cursor.variables, cursor->variables);
	k->version++;
}

bool cursors_are_due(const struct cursors *c, bool is_end, int64_t now_ms)
{
	if (now_ms < c->due_ms && (!is_end || c->failures))
		return false;
	for (size_t i = 0; i < c->count; i++)
		if (!c->items[i].sent && c->items[i].version != c->items[i].stored)
			return true;
	return false;
}

bool cursors_are_sent(const struct cursors *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->items[i].sent)
			return true;
	return false;
}

void cursors_send(struct cursors *c, int64_t now_ms)
{
	assert(!cursors_are_sent(c));
	c->due_ms = now_ms + CURSORS_PERIOD_MS;
	for (size_t i = 0; i < c->count; i++)
		if (c->items[i].version != c->items[i].stored)
			c->items[i].sent = c->items[i].version;
}

void cursors_answer(struct cursors *c, bool is_stored)
{
	c->failures = is_stored ? 0 : c->failures + 1;
	for (size_t i = 0; i < c->count; i++) {
		struct kept_cursor *k = &c->items[i];

		if (k->sent && is_stored)
			k->stored = k->sent;
		k->sent = 0;
	}
}

void cursors_clear(struct cursors *c)
{
	for (size_t i = 0; i < c->count; i++) {
		struct cursor *k = &c->items[i].cursor;

		free((char *)k->source);
		free((char *)k->scope);
		free((char *)k->kind);
		free((char *)k->value.at);
		free((char *)k->variables.at);
	}
	free(c->items);
	*c = (struct cursors){.due_ms = c->due_ms};
}
