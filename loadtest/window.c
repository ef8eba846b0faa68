/* window.c owns messages from when they are due until their ack, in order and by id. link.c limits the
 * size of a window and does the I/O. */
#include "window.h"

#include <stdlib.h>

static uint64_t key_of(enum script_kind kind, uint64_t n)
{
	return n << 2 | kind;
}

void window_init(struct window *w)
{
	list_init(&w->unsent);
	list_init(&w->sent_events);
	list_init(&w->sent_malformed);
	w->by_key = NULL;
	w->count = 0;
}

static void put(struct window *w, struct sending *m)
{
	list_append(&w->unsent, &m->link);
	HASH_ADD(hh, w->by_key, key, sizeof(m->key), m);
	w->count++;
}

struct sending *window_take(struct window *w, struct sending *m)
{
	list_remove(&m->link);
	HASH_DEL(w->by_key, m);
	w->count--;
	return m;
}

int window_add(struct window *w, const struct script_step *step, int64_t planned_ns)
{
	struct sending *m = calloc(1, sizeof(*m));

	if (!m)
		return -1;
	m->key = key_of(step->kind, step->n);
	m->step = *step;
	m->planned_ns = planned_ns;
	put(w, m);
	return 0;
}

bool window_has_unsent(const struct window *w)
{
	return !list_is_empty(&w->unsent);
}

struct sending *window_send(struct window *w, int64_t now_ns)
{
	struct sending *m;

	if (!window_has_unsent(w))
		return NULL;
	m = list_entry(w->unsent.next, struct sending, link);
	list_remove(&m->link);
	list_append(m->step.kind == SCRIPT_MALFORMED ? &w->sent_malformed : &w->sent_events, &m->link);
	m->last_ns = now_ns;
	if (!m->first_ns)
		m->first_ns = now_ns;
	return m;
}

static struct sending *find(struct window *w, enum script_kind kind, uint64_t n)
{
	uint64_t key = key_of(kind, n);
	struct sending *m;

	HASH_FIND(hh, w->by_key, &key, sizeof(key), m);
	return m;
}

struct sending *window_settle_event(struct window *w, uint64_t n)
{
	struct sending *m = find(w, SCRIPT_EVENT, n);

	if (!m || !m->first_ns)
		m = find(w, SCRIPT_DUPLICATE, n);
	return m ? window_take(w, m) : NULL;
}

struct sending *window_settle_malformed(struct window *w)
{
	struct sending *m;

	if (list_is_empty(&w->sent_malformed))
		return NULL;
	m = list_entry(w->sent_malformed.next, struct sending, link);
	return window_take(w, m);
}

static unsigned int retry_list(struct list *sent, struct list *again, int64_t before_ns)
{
	unsigned int count = 0;

	list_each(node, after, sent) {
		if (list_entry(node, struct sending, link)->last_ns >= before_ns)
			break;
		list_remove(node);
		list_append(again, node);
		count++;
	}
	return count;
}

unsigned int window_retry(struct window *w, int64_t before_ns)
{
	struct list again;
	unsigned int count;

	list_init(&again);
	count = retry_list(&w->sent_events, &again, before_ns);
	count += retry_list(&w->sent_malformed, &again, before_ns);
	if (!count)
		return 0;
	list_each(node, after, &w->unsent) {
		list_remove(node);
		list_append(&again, node);
	}
	list_each(node, after, &again) {
		list_remove(node);
		list_append(&w->unsent, node);
	}
	return count;
}

void window_move(struct window *from, struct window *to)
{
	window_retry(from, INT64_MAX);
	list_each(node, after, &from->unsent) {
		struct sending *m = list_entry(node, struct sending, link);

		window_take(from, m);
		put(to, m);
	}
}

void window_clear(struct window *w)
{
	window_retry(w, INT64_MAX);
	list_each(node, after, &w->unsent) {
		struct sending *m = list_entry(node, struct sending, link);

		window_take(w, m);
		free(m);
	}
}
