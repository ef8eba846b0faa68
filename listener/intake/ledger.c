/* ledger.c owns the order of a connection's frames: which are durable, and so where the cursor is, and when which acks
 * are sent. feed/session.c knows what a cursor means, and the pipeline says when an event is durable.
 *
 * A frame is durable when all its events are. Durable frames at the front are removed and move the cursor. Behind a
 * frame that is not durable, adjacent durable frames are joined, so the number of entries stays close to the number of
 * unsettled events. */
#include "intake/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/text.h"
#include "feed/cursor.h"

/* A text on the heap; at is NULL if absent. */
struct kept {
	char *at;
	size_t len;
};

/* The acks of a frame, one after the other in text. */
struct owed {
	struct ledger_acks acks;
	size_t bytes; /* charged for the frame */
	char text[];
};

/* A frame, or several adjacent durable ones. */
struct entry {
	struct sender sender; /* must be first: cast from sender */
	struct list link;     /* in entries, in order of arrival */
	struct ledger *ledger;
	size_t unsettled; /* unsettled events */
	size_t unacked;   /* how many frames wait for the ack */
	int64_t came_ms;  /* loop clock: when the frame of owed arrived */
	struct kept cursor;
	struct owed *owed; /* NULL: none */
	char *reason;      /* of a producer's first event that became a dead letter; heap */
	bool is_open;      /* its message is still being read */
	bool is_rejected;
	bool is_release;
	bool has_new;   /* an event was not stored before */
	bool has_error; /* a producer's event became a dead letter */
};

struct ledger {
	struct list link; /* in settings.ledgers */
	struct ledger_settings settings;
	uint64_t n;     /* from ledger_tick */
	int64_t now_ms; /* loop clock, the same */
	struct list entries;
	struct entry *open; /* entry of the frame being read, or NULL */
	struct kept cursor; /* cursor of removed frames, not reported yet */
	size_t unacked;
	bool is_released; /* ledger_release was called; the frame may not be durable yet */
	bool is_full;
	bool is_left;
	bool is_outdated; /* its cursors are discarded */
};

static void charge(const struct ledger *l, size_t before, size_t now)
{
	if (l->settings.charge && now != before)
		l->settings.charge(l->settings.arg, (long)now - (long)before);
}

static void keep(const struct ledger *l, struct kept *k, struct slice text)
{
	char *copy = memory_alloc(text.len + 1);

	memcpy(copy, text.at, text.len);
	charge(l, k->len, text.len);
	free(k->at);
	*k = (struct kept){copy, text.len};
}

static void drop(const struct ledger *l, struct kept *k)
{
	charge(l, k->len, 0);
	free(k->at);
	*k = (struct kept){NULL, 0};
}

static struct slice slice_of(const struct kept *k)
{
	return (struct slice){k->at, k->len};
}

/* --- entries --- */

static void note(const struct ledger *l, struct kept *k, struct slice cursor)
{
	if (!l->is_outdated &&
	    (!k->at || l->settings.is_last || cursor_is_ahead(slice_of(k), cursor, l->settings.is_hex)))
		keep(l, k, cursor);
}

static bool is_durable(const struct entry *e)
{
	return !e->is_open && !e->unsettled;
}

static struct entry *neighbour(const struct ledger *l, struct list *link)
{
	return link == &l->entries ? NULL : list_entry(link, struct entry, link);
}

/* Gives e other acks, or none. */
static void set_owed(struct entry *e, struct owed *owed)
{
	charge(e->ledger, e->owed ? e->owed->bytes : 0, owed ? owed->bytes : 0);
	free(e->owed);
	e->owed = owed;
}

static void entry_free(struct entry *e)
{
	list_remove(&e->link);
	drop(e->ledger, &e->cursor);
	set_owed(e, NULL);
	free(e->reason);
	free(e);
}

static void ledger_free(struct ledger *l)
{
	list_each(node, after, &l->entries)
		entry_free(list_entry(node, struct entry, link));
	drop(l, &l->cursor);
	list_remove(&l->link);
	free(l);
}

/* --- acks --- */

static void check_full(struct ledger *l)
{
	size_t most = l->settings.max_unacked;

	if (l->is_left || !most || (l->is_full ? l->unacked > most * 3 / 4 : l->unacked < most))
		return;
	l->is_full = !l->is_full;
	l->settings.on_full(l->settings.conn_arg, l->is_full);
}

/* Replaces LEDGER_REASON by the reason, escaped for a JSON string. */
static struct slice fill_reason(struct bytes *text, const struct entry *e)
{
	const char *why = e->reason ? e->reason : "rejected by another listener: see dead_letters";
	const char *at = e->owed->acks.error.at, *end = at + e->owed->acks.error.len, *found;
	AUTO_FREE char *quoted = quote_json(why, strlen(why));

	while ((found = memmem(at, (size_t)(end - at), LEDGER_REASON, strlen(LEDGER_REASON)))) {
		bytes_add(text, at, (size_t)(found - at));
		bytes_add(text, quoted + 1, strlen(quoted) - 2);
		at = found + strlen(LEDGER_REASON);
	}
	bytes_add(text, at, (size_t)(end - at));
	return bytes_slice(text);
}

/* The ack of an entry without an error. */
static struct slice choose(const struct entry *e)
{
	const struct ledger_acks *acks = &e->owed->acks;

	return e->has_new || !acks->duplicate.at ? acks->stored : acks->duplicate;
}

/* Sends the ack that e waits for, if any. */
static void send_ack(struct ledger *l, struct entry *e)
{
	AUTO_BYTES text = {NULL, 0, 0};
	struct slice ack;

	if (!e->owed)
		return;
	if (e->has_error)
		ack = e->owed->acks.error.at ? fill_reason(&text, e) : e->owed->acks.error;
	else
		ack = choose(e);
	if (ack.at && !l->is_left)
		l->settings.on_ack(l->settings.conn_arg, ack, e->came_ms);
	set_owed(e, NULL);
	l->unacked -= e->unacked;
	e->unacked = 0;
	e->has_error = false; /* it may be joined */
	check_full(l);
}

void ledger_tick(struct ledger *l, uint64_t n, int64_t now_ms)
{
	l->n = n;
	l->now_ms = now_ms;
}

/* --- durable frames --- */

/* Joins e to the entry before it. Of their acks, only the last is sent; e may have none. */
static void join(struct ledger *l, struct entry *before, struct entry *e)
{
	if (e->cursor.at)
		note(l, &before->cursor, slice_of(&e->cursor));
	before->unacked += e->unacked;
	if (e->owed && (!before->owed || choose(e).at)) {
		charge(l, e->owed->bytes, 0);
		set_owed(before, e->owed);
		before->came_ms = e->came_ms;
		before->has_new = e->has_new;
		e->owed = NULL;
	}
	before->is_release |= e->is_release;
	entry_free(e);
}

static bool may_join(const struct entry *a, const struct entry *b)
{
	return a && b && is_durable(a) && is_durable(b) && !a->has_error && !b->has_error;
}

static void join_neighbours(struct ledger *l, struct entry *e)
{
	struct entry *before = neighbour(l, e->link.prev), *after = neighbour(l, e->link.next);

	if (may_join(e, after))
		join(l, e, after);
	if (may_join(before, e))
		join(l, before, e);
}

/* Removes the durable frames at the front. */
static void take_off(struct ledger *l)
{
	list_each(node, after, &l->entries) {
		struct entry *e = list_entry(node, struct entry, link);

		if (!is_durable(e))
			return;
		if (e->cursor.at)
			note(l, &l->cursor, slice_of(&e->cursor));
		if (e->is_release)
			l->settings.is_held = false;
		send_ack(l, e);
		entry_free(e);
	}
}

static void tell_cursor(struct ledger *l)
{
	struct kept cursor = l->cursor;

	if (!cursor.at || l->settings.is_held || (l->is_left && !l->settings.is_lasting))
		return;
	l->cursor = (struct kept){NULL, 0};
	l->settings.on_cursor(l->settings.arg, slice_of(&cursor));
	drop(l, &cursor);
}

/* Call when e has become durable. May free the ledger. */
static void on_durable(struct ledger *l, struct entry *e)
{
	if (!l->settings.is_cumulative)
		send_ack(l, e);
	join_neighbours(l, e);
	take_off(l);
	tell_cursor(l);
	if (l->is_left && list_is_empty(&l->entries))
		ledger_free(l);
}

static void note_outcome(struct entry *e, const struct event *ev, enum outcome outcome)
{
	e->has_new |= outcome == OUTCOME_PERSISTED;
	if (outcome != OUTCOME_REJECTED || !e->ledger->settings.on_answer)
		return;
	if (!e->has_error && ev->reason)
		e->reason = memory_strdup(ev->reason);
	e->has_error = true;
}

static void on_answer(struct sender *sender, const struct event *ev, enum outcome outcome)
{
	struct entry *e = (struct entry *)sender;
	void (*tell)(void *, const struct event *, enum outcome, uint64_t) = e->ledger->settings.on_answer;
	void *arg = e->ledger->settings.arg;
	uint64_t n = sender->n;

	note_outcome(e, ev, outcome);
	e->unsettled--;
	if (is_durable(e))
		on_durable(e->ledger, e);
	if (tell)
		tell(arg, ev, outcome, n);
}

/* --- a frame --- */

static struct entry *open_entry(struct ledger *l)
{
	if (l->open)
		return l->open;
	l->open = memory_calloc(1, sizeof(*l->open));
	l->open->sender = (struct sender){.answer = on_answer,
					  .name = l->settings.name,
					  .n = l->n,
					  .resends = l->settings.resends,
					  .forgets = l->settings.forgets};
	l->open->ledger = l;
	l->open->is_open = true;
	list_append(&l->entries, &l->open->link);
	return l->open;
}

struct sender *ledger_expect(struct ledger *l)
{
	struct entry *e = open_entry(l);

	e->unsettled++;
	return &e->sender;
}

void ledger_note_cursor(struct ledger *l, struct slice cursor)
{
	note(l, &open_entry(l)->cursor, cursor);
}

void ledger_begin_frame(struct ledger *l)
{
	if (l->open && l->open->is_rejected)
		ledger_end(l);
}

void ledger_reject(struct ledger *l)
{
	open_entry(l)->is_rejected = true;
}

void ledger_release(struct ledger *l)
{
	if (!l->settings.is_held || l->is_released)
		return;
	l->is_released = true;
	open_entry(l)->is_release = true;
}

static struct slice put(char **at, struct slice text)
{
	struct slice copied = {text.at ? *at : NULL, text.len};

	if (text.at)
		*at = mempcpy(*at, text.at, text.len);
	return copied;
}

void ledger_owe_acks(struct ledger *l, const struct ledger_acks *acks)
{
	struct entry *e = l->open || acks->stored.at ? open_entry(l) : NULL;
	size_t len = acks->stored.len + acks->duplicate.len + acks->error.len;
	struct owed *owed;
	char *at;

	if (e && !e->is_rejected) {
		owed = memory_alloc(sizeof(*owed) + len);
		at = owed->text;
		owed->acks.stored = put(&at, acks->stored);
		owed->acks.duplicate = put(&at, acks->duplicate);
		owed->acks.error = put(&at, acks->error);
		owed->bytes = sizeof(*e) + sizeof(*owed) + len;
		set_owed(e, owed);
		e->came_ms = l->now_ms;
		e->unacked = 1;
		e->has_new |= !e->unsettled; /* a frame without events always counts as new */
		l->unacked++;
		if (l->settings.is_at_once)
			send_ack(l, e);
	}
	ledger_end(l);
}

void ledger_end(struct ledger *l)
{
	struct entry *e = l->open;

	if (!e)
		return;
	l->open = NULL;
	e->is_open = false;
	check_full(l);
	if (is_durable(e))
		on_durable(l, e);
}

/* --- life --- */

static void forget_cursors(struct ledger *l)
{
	drop(l, &l->cursor);
	list_each(node, after, &l->entries)
		drop(l, &list_entry(node, struct entry, link)->cursor);
}

void ledgers_forget_cursors(struct list *ledgers, const struct ledger *first)
{
	bool is_older = first;

	list_each(node, after, ledgers) {
		struct ledger *l = list_entry(node, struct ledger, link);

		is_older &= l != first;
		l->is_outdated |= is_older;
		forget_cursors(l);
	}
}

struct ledger *ledger_new(const struct ledger_settings *settings)
{
	struct ledger *l = memory_calloc(1, sizeof(*l));

	l->settings = *settings;
	list_init(&l->entries);
	list_append(settings->ledgers, &l->link);
	return l;
}

void ledger_leave(struct ledger *l)
{
	ledger_end(l);
	l->is_left = true;
	if (list_is_empty(&l->entries))
		ledger_free(l);
}

void ledgers_free(struct list *ledgers)
{
	list_each(node, after, ledgers) {
		struct ledger *l = list_entry(node, struct ledger, link);

		l->settings.charge = NULL; /* the pipeline that counts it may be gone */
		ledger_free(l);
	}
}
