/* event.c owns the events in memory: their lists, their hash table and their bytes. pipeline.c decides what happens to
 * them. */
#include "event/event.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/memory.h"
#include "base/fault_point.h"
#include "base/sha256.h"
#include "base/slab.h"
#include "event/order.h"

#define FIRST_CHAINS    1024
#define MALLOC_OVERHEAD 32 /* bytes per allocation, for the memory budget */
#define BEHIND_MAX      8  /* events that wait behind one with the same id */
#define COPY_BYTES      (sizeof(struct copy) + MALLOC_OVERHEAD)
#define LENGTHS         8 /* bytes for the lengths of id and type before a profile's event */

static const char *const state_names[EVENT_STATES] = {
	"claiming", "held", "behind", "batched", "storing", "backing_off", "refused", "dead_lettering", "done",
};

#define TO(state) (1u << (state))

/* The allowed steps between states. */
static const unsigned int allowed[EVENT_STATES] = {
	[EV_CLAIMING] = TO(EV_BATCHED) | TO(EV_HELD) | TO(EV_DONE),
	[EV_HELD] = TO(EV_HELD) | TO(EV_CLAIMING) | TO(EV_BATCHED) | TO(EV_BEHIND) | TO(EV_DONE),
	[EV_BEHIND] = TO(EV_CLAIMING) | TO(EV_BATCHED) | TO(EV_REFUSED) | TO(EV_DONE),
	[EV_BATCHED] = TO(EV_STORING) | TO(EV_HELD) | TO(EV_REFUSED),
	[EV_STORING] = TO(EV_DONE) | TO(EV_BATCHED) | TO(EV_BACKING_OFF) | TO(EV_REFUSED) | TO(EV_BEHIND),
	[EV_BACKING_OFF] = TO(EV_CLAIMING) | TO(EV_HELD) | TO(EV_BATCHED) | TO(EV_BEHIND),
	[EV_REFUSED] = TO(EV_DEAD_LETTERING),
	[EV_DEAD_LETTERING] = TO(EV_DONE) | TO(EV_REFUSED),
};

const char *event_state_name(enum event_state state)
{
	return state_names[state];
}

void events_init(struct events *es)
{
	memset(es, 0, sizeof(*es));
	uv_random(NULL, NULL, &es->key, sizeof(es->key), 0, NULL);
	for (int i = 0; i < EVENT_STATES; i++)
		list_init(&es->lists[i]);
	list_init(&es->ordered);
}

static void charge(struct events *es, struct event *ev, size_t bytes)
{
	ev->bytes += bytes;
	es->bytes += bytes;
}

static void put_in_list(struct events *es, struct event *ev, enum event_state state)
{
	ev->state = state;
	list_append(&es->lists[state], &ev->link);
	es->counts[state]++;
	es->message_bytes[state] += ev->message_len;
}

static char *put_length(char *at, size_t len)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		*at++ = (char)(len >> shift);
	return at;
}

/* Copies the parts to the bytes after the struct. id and type are decoded, so they are not slices of the message. */
static void fill(struct event *ev, const char *message, size_t len, const struct envelope_view *view)
{
	char *at = (char *)(ev + 1);

	if (view && view->source) {
		ev->source = view->source;
		at = put_length(put_length(at, view->id.len), view->type.len);
	}
	if (view) {
		ev->lines = (uint8_t)(1u << view->line);
		ev->id = memcpy(at, view->id.at, view->id.len);
		ev->id_len = (uint16_t)view->id.len;
		at += view->id.len;
		ev->type = memcpy(at, view->type.at, view->type.len);
		ev->type_len = (uint32_t)view->type.len;
		at += view->type.len;
	}
	ev->message = memcpy(at, message, len);
	ev->message_len = len;
	if (!view)
		return;
	ev->payload = view->payload;
	if (view->payload.at >= message && view->payload.at < message + len)
		ev->payload.at = at + (view->payload.at - message);
}

/* --- the table --- */

static struct event **chain_of(const struct events *es, const struct id_hash *hash)
{
	return &es->table[hash->half[0] & (es->chains - 1)];
}

static void put_in_chain(struct events *es, struct event *ev)
{
	struct event **chain = chain_of(es, &ev->id_hash);

	ev->in_chain = *chain;
	*chain = ev;
}

/* At least one chain per event. The table only doubles when it is full, so that its heads stay in the processor's
 * cache. */
static void grow_table(struct events *es)
{
	size_t chains = es->chains ? 2 * es->chains : FAULT_POINT_ONE("event: the table is small", FIRST_CHAINS),
	       old_chains = es->chains;
	struct event **table = memory_calloc(chains, sizeof(*table)), **old = es->table, *next;

	es->table = table;
	es->chains = chains;
	for (size_t i = 0; i < old_chains; i++)
		for (struct event *ev = old[i]; ev; ev = next) {
			next = ev->in_chain;
			put_in_chain(es, ev);
		}
	free(old);
}

static void put_in_table(struct events *es, struct event *ev)
{
	if (es->in_table >= es->chains)
		grow_table(es);
	put_in_chain(es, ev);
	ev->is_in_table = true;
	es->in_table++;
}

static void take_out_of_table(struct events *es, struct event *ev)
{
	struct event **at = chain_of(es, &ev->id_hash);

	while (*at != ev)
		at = &(*at)->in_chain;
	*at = ev->in_chain;
	ev->is_in_table = false;
	es->in_table--;
}

struct event *event_find(const struct events *es, const struct envelope_view *view)
{
	struct event *ev = es->chains ? *chain_of(es, &view->id_hash) : NULL;

	while (ev && (!id_hash_is_equal(&ev->id_hash, &view->id_hash) || ev->id_len != view->id.len ||
		      memcmp(ev->id, view->id.at, view->id.len) != 0))
		ev = ev->in_chain;
	return ev;
}

struct event *event_find_hash(const struct events *es, const struct id_hash *hash)
{
	struct event *ev = es->chains ? *chain_of(es, hash) : NULL;

	while (ev && !id_hash_is_equal(&ev->id_hash, hash))
		ev = ev->in_chain;
	return ev;
}

void events_fetch_chain(const struct events *es, const struct id_hash *hash)
{
	if (es->chains)
		__builtin_prefetch(chain_of(es, hash));
}

void events_fetch_event(const struct events *es, const struct id_hash *hash)
{
	if (es->chains)
		event_fetch(*chain_of(es, hash));
}

void events_hash(const struct events *es, struct envelope_view *view)
{
	view->id_hash = id_hash_of(&es->key, view->id.at, view->id.len);
}

void events_set_key(struct events *es, const struct id_hash_key *key)
{
	if (memcmp(&es->key, key, sizeof(*key)) == 0)
		return;
	es->key = *key;
	if (es->chains)
		memset(es->table, 0, es->chains * sizeof(*es->table));
	for (int i = 0; i < EVENT_STATES; i++)
		list_each(node, after, &es->lists[i]) {
			struct event *ev = list_entry(node, struct event, link);

			ev->id_hash = id_hash_of(key, ev->id, ev->id_len);
			if (ev->is_in_table)
				put_in_chain(es, ev);
		}
}

/* --- new events --- */

struct event *event_new(struct events *es, enum event_state state, const char *message, size_t len,
			const struct envelope_view *view, struct sender *sender, int64_t now_us)
{
	size_t lengths = view && view->source ? LENGTHS : 0;
	size_t size = sizeof(struct event) + len + (view ? lengths + view->id.len + view->type.len : 0);
	struct event *ev = slab_alloc(size);

	memset(ev, 0, sizeof(*ev));
	fill(ev, message, len, view);
	ev->received_us = now_us;
	ev->copies = 1;
	ev->first.sender = sender;
	ev->first.n = sender ? sender->n : 0;
	list_init(&ev->wait_link);
	list_init(&ev->spool_link);
	ev->is_loose = ev->id_len && state == EV_REFUSED;
	if (view)
		ev->id_hash = view->id_hash;
	if (state == EV_CLAIMING)
		put_in_table(es, ev);
	list_append(&es->ordered, &ev->order_link);
	charge(es, ev, slab_room(size));
	es->messages++;
	put_in_list(es, ev, state);
	return ev;
}

void event_set_digest(struct event *ev, const uint8_t *digest)
{
	ev->digest = memcpy(memory_alloc(32), digest, 32);
}

void event_set_reason(struct event *ev, const char *text)
{
	free(ev->reason);
	ev->reason = memory_strdup(text);
}

void event_digest(const struct event *ev, uint8_t *digest)
{
	if (ev->digest)
		memcpy(digest, ev->digest, 32);
	else if (ev->source && ev->id_len)
		sha256((const char *)(ev + 1), LENGTHS + ev->id_len + ev->type_len + ev->message_len, digest);
	else
		sha256(ev->message, ev->message_len, digest);
}

uint64_t event_digest_head(const struct event *ev)
{
	uint8_t digest[32];
	uint64_t head = 0;

	event_digest(ev, digest);
	for (int i = 0; i < 8; i++)
		head = head << 8 | digest[i];
	return head;
}

/* --- messages that share an id --- */

static bool is_message(const struct event *ev, const char *message, size_t len, const struct envelope_view *view)
{
	if (ev->message_len != len || memcmp(ev->message, message, len) != 0 || !ev->source != !view->source)
		return false;
	return !ev->source || (ev->type_len == view->type.len && memcmp(ev->type, view->type.at, ev->type_len) == 0);
}

struct event *event_with_message(struct event *ev, const char *message, size_t len, const struct envelope_view *view)
{
	while (ev && !is_message(ev, message, len, view))
		ev = ev->behind;
	return ev;
}

struct event *event_put_behind(struct event *ev, struct event *more, bool is_newest)
{
	struct event **at = &ev->behind, *oldest;

	assert(more->state == EV_BEHIND);
	while (!is_newest && *at)
		at = &(*at)->behind;
	more->behind = *at;
	*at = more;
	at = &ev->behind;
	for (int n = 0; *at && n < BEHIND_MAX; n++)
		at = &(*at)->behind;
	oldest = *at;
	*at = NULL;
	return oldest;
}

uint32_t event_tries(const struct event *ev)
{
	return ev->attempts + ev->put_offs;
}

struct event *event_next(const struct event *ev)
{
	struct event *next = NULL;

	for (struct event *other = ev->behind; other; other = other->behind)
		if ((other->attempts || !other->reason) && (!next || event_tries(other) < event_tries(next)))
			next = other;
	return next;
}

/* Copy claim_ms even without a claim: two claims of one id never have the same time. */
static void hand_over_claim(struct event *ev, struct event *next)
{
	next->is_claimed = ev->is_claimed;
	next->lease_ms = ev->lease_ms;
	next->claim_ms = ev->claim_ms > next->claim_ms ? ev->claim_ms : next->claim_ms;
	ev->is_claimed = false;
}

void event_give_place(struct events *es, struct event *ev, struct event *next)
{
	struct event **at = &ev->behind;

	while (*at != next)
		at = &(*at)->behind;
	*at = next->behind;
	next->behind = ev->behind;
	ev->behind = NULL;
	hand_over_claim(ev, next);
	order_pass(ev, next);
	if (!ev->is_in_table)
		return;
	put_in_table(es, next);
	take_out_of_table(es, ev);
}

/* --- copies, steps, end --- */

void event_add_copy(struct events *es, struct event *ev, struct sender *sender)
{
	if (sender) {
		struct copy *more = memory_alloc(sizeof(*more));

		*more = (struct copy){ev->first.next, sender, sender->n};
		ev->first.next = more;
		charge(es, ev, COPY_BYTES);
	}
	ev->copies++;
	es->messages++;
}

const char *event_sender(const struct event *ev)
{
	for (const struct copy *c = &ev->first; c; c = c->next)
		if (c->sender && c->sender->name)
			return c->sender->name;
	return NULL;
}

const char *event_source(const struct event *ev)
{
	const char *name = ev->source ? ev->source : event_sender(ev);

	name = name ? name : ev->from;
	return name && *name ? name : NULL;
}

void event_move(struct events *es, struct event *ev, enum event_state to)
{
	assert(allowed[ev->state] & TO(to));
	list_remove(&ev->link);
	es->counts[ev->state]--;
	es->message_bytes[ev->state] -= ev->message_len;
	put_in_list(es, ev, to);
}

void event_set_wait(struct events *es, struct event *ev, enum wait wait)
{
	es->deferred += (wait == WAIT_LEADER) - (size_t)(ev->wait == WAIT_LEADER);
	ev->wait = wait;
}

void event_send(struct events *es, struct event *ev)
{
	event_set_wait(es, ev, WAIT_NONE);
	event_move(es, ev, EV_BATCHED);
}

static void answer(const struct copy *c, const struct event *ev, enum outcome outcome)
{
	c->sender->n = c->n;
	c->sender->answer(c->sender, ev, outcome);
}

static void event_free(struct events *es, struct event *ev)
{
	list_remove(&ev->link);
	list_remove(&ev->wait_link);
	list_remove(&ev->order_link);
	list_remove(&ev->spool_link);
	es->counts[ev->state]--;
	es->message_bytes[ev->state] -= ev->message_len;
	es->bytes -= ev->bytes;
	es->messages -= ev->copies;
	es->deferred -= ev->wait == WAIT_LEADER;
	es->back -= ev->is_back;
	if (ev->is_in_table)
		take_out_of_table(es, ev);
	for (struct copy *c = ev->first.next, *next; c; c = next) {
		next = c->next;
		ev->bytes -= COPY_BYTES;
		free(c);
	}
	free(ev->reason);
	free((void *)ev->digest);
	slab_free(ev, ev->bytes); /* the bytes of its copies are already subtracted */
}

void event_finish(struct events *es, struct event *ev, enum outcome outcome)
{
	assert(ev->state == EV_DONE);
	for (struct copy *c = &ev->first; c; c = c->next) {
		if (c->sender)
			answer(c, ev, outcome);
		if (outcome == OUTCOME_PERSISTED)
			outcome = OUTCOME_DUPLICATE;
	}
	event_free(es, ev);
}

void event_put_away(struct events *es, struct event *ev)
{
	assert(ev->state == EV_HELD || ev->state == EV_BATCHED);
	for (const struct copy *c = &ev->first; c; c = c->next)
		if (c->sender)
			answer(c, ev, OUTCOME_PERSISTED);
	event_free(es, ev);
	es->messages++;
	es->away++;
}

const struct event *events_oldest(const struct events *es)
{
	return list_is_empty(&es->ordered) ? NULL : list_entry(es->ordered.next, struct event, order_link);
}

int64_t events_settled_us(const struct events *es, int64_t now_us)
{
	list_each(node, after, &es->ordered) {
		const struct event *ev = list_entry(node, struct event, order_link);

		if (ev->came_us && !ev->is_kept && ev->came_us < now_us)
			now_us = ev->came_us;
	}
	return now_us;
}

size_t events_before(const struct events *es, int64_t us)
{
	size_t n = 0;

	list_each(node, after, &es->ordered) {
		if (list_entry(node, struct event, order_link)->received_us >= us)
			break;
		n++;
	}
	return n;
}

void events_clear(struct events *es)
{
	for (int i = 0; i < EVENT_STATES; i++)
		list_each(node, after, &es->lists[i])
			event_free(es, list_entry(node, struct event, link));
	free(es->table);
	es->table = NULL;
	es->chains = 0;
}
