/* order.c keeps the keys of --order-pointer. One event per key is processed; the others wait in order of arrival. */
#include "event/order.h"

#include <stdlib.h>

#include "base/keyed.h"
#include "base/memory.h"

#include <uthash.h> /* after keyed.h and memory.h, which define its hash and its allocator */

struct order_key {
	UT_hash_handle hh;
	struct event *first; /* the event being processed, or NULL */
	struct list waiting;
	size_t events;
	size_t len;
	char text[];
};

void order_init(struct order *o)
{
	o->keys = NULL;
	list_init(&o->due);
}

void order_free(struct order *o)
{
	struct order_key *key, *after;

	HASH_ITER(hh, o->keys, key, after)
	{
		HASH_DEL(o->keys, key);
		free(key);
	}
}

void order_set_key(struct order *o, struct event *ev, struct slice text)
{
	struct order_key *key;

	if (!text.len)
		return;
	HASH_FIND(hh, o->keys, text.at, text.len, key);
	if (!key) {
		key = memory_calloc(1, sizeof(*key) + text.len);
		key->len = text.len;
		memcpy(key->text, text.at, text.len);
		list_init(&key->waiting);
		HASH_ADD_KEYPTR(hh, o->keys, key->text, key->len, key);
	}
	key->events++;
	ev->order = key;
}

bool order_begin(struct event *ev)
{
	struct order_key *key = ev->order;

	if (key->first == ev)
		return true;
	if (key->first) {
		list_append(&key->waiting, &ev->wait_link);
		return false;
	}
	key->first = ev;
	return true;
}

void order_pass(struct event *ev, struct event *next)
{
	if (!ev->order)
		return;
	ev->order->first = next;
	next->order = ev->order;
	ev->order = NULL;
}

void order_end(struct order *o, struct event *ev)
{
	struct order_key *key = ev->order;
	struct list *next = key->waiting.next;

	ev->order = NULL;
	if (key->first == ev) {
		key->first = next != &key->waiting ? list_entry(next, struct event, wait_link) : NULL;
		if (key->first) {
			list_remove(next);
			list_append(&o->due, next);
		}
	}
	if (--key->events)
		return;
	HASH_DEL(o->keys, key);
	free(key);
}
