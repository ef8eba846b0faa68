/* ledger.c owns the order of a connection's frames: which are durable, and so where the cursor is and which acks are
 * due. feed/session.c knows what a cursor means, and the pipeline says when an event is durable.
 *
 * A frame is durable when all its events are. Durable frames at the front are removed and move the cursor. Behind a
 * frame that is not durable, adjacent durable frames are joined, so the number of entries stays close to the number of
 * unsettled events. */
#include "intake/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "feed/cursor.h"

/* A text on the heap; at is NULL if there is none. */
struct kept {
	char *at;
	size_t len;
};

/* A frame, or several adjacent durable ones. */
struct entry {
	struct sender sender; /* must be first: cast from sender */
	struct list link;     /* in a list of the ledger, in order of arrival; or in due */
	struct ledger *ledger;
	size_t unsettled; /* unsettled events */
	size_t owed;      /* how many acks `ack` stands for */
	int64_t came_ms;  /* loop clock: when the frame of ack arrived */
	struct kept cursor;
	struct kept ack;
	bool is_open; /* its message is still being read */
	bool is_rejected;
	bool is_release;
};

struct ledger {
	struct list link; /* in settings.ledgers */
	struct ledger_settings settings;
	int64_t now_ms; /* loop clock, from ledger_tick */
	struct list entries;
	struct list due;     /* durable entries whose acks were not taken yet */
	struct entry *open;  /* entry of the frame being read, or NULL */
	struct entry *taken; /* entry whose ack was taken last */
	struct kept cursor;  /* cursor of removed frames, not reported yet */
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

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	list_remove(&e->link);
	drop(e->ledger, &e->cursor);
	drop(e->ledger, &e->ack);
	free(e);
}

static void ledger_free(struct ledger *l)
{
	list_each(node, after, &l->entries)
		entry_free(list_entry(node, struct entry, link));
	list_each(node, after, &l->due)
		entry_free(list_entry(node, struct entry, link));
	entry_free(l->taken);
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

/* Makes the ack of e due. If acks are cumulative, it replaces an earlier one. */
static void make_due(struct ledger *l, struct entry *e)
{
	struct entry *due = memory_calloc(1, sizeof(*due));

	due->ledger = l;
	due->ack = e->ack;
	due->owed = e->owed;
	due->came_ms = e->came_ms;
	e->ack = (struct kept){NULL, 0};
	e->owed = 0;
	if (l->settings.is_cumulative && !list_is_empty(&l->due)) {
		struct entry *before = list_entry(l->due.next, struct entry, link);

		due->owed += before->owed;
		entry_free(before);
	}
	list_append(&l->due, &due->link);
}

struct slice ledger_take_ack(struct ledger *l)
{
	entry_free(l->taken);
	l->taken = list_is_empty(&l->due) ? NULL : list_entry(l->due.next, struct entry, link);
	if (!l->taken)
		return (struct slice){NULL, 0};
	list_remove(&l->taken->link);
	list_init(&l->taken->link);
	l->unacked -= l->taken->owed;
	check_full(l);
	return slice_of(&l->taken->ack);
}

int64_t ledger_taken_ms(const struct ledger *l)
{
	return l->taken->came_ms;
}

void ledger_tick(struct ledger *l, int64_t now_ms)
{
	l->now_ms = now_ms;
}

/* --- durable frames --- */

/* Joins e to the entry before it. */
static void join(struct ledger *l, struct entry *before, struct entry *e)
{
	if (e->cursor.at)
		note(l, &before->cursor, slice_of(&e->cursor));
	if (e->ack.at) {
		drop(l, &before->ack);
		before->ack = e->ack;
		before->came_ms = e->came_ms;
		before->owed += e->owed;
		e->ack = (struct kept){NULL, 0};
	}
	before->is_release |= e->is_release;
	entry_free(e);
}

static void join_neighbours(struct ledger *l, struct entry *e)
{
	struct entry *before = neighbour(l, e->link.prev), *after = neighbour(l, e->link.next);

	if (after && is_durable(after))
		join(l, e, after);
	if (before && is_durable(before))
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
		if (e->ack.at)
			make_due(l, e);
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
	if (e->ack.at && !l->settings.is_cumulative)
		make_due(l, e);
	if (neighbour(l, l->entries.next) == e)
		take_off(l);
	else
		join_neighbours(l, e);
	tell_cursor(l);
	if (l->is_left && list_is_empty(&l->entries))
		ledger_free(l);
	else if (!l->is_left && !list_is_empty(&l->due))
		l->settings.on_ack_due(l->settings.conn_arg);
}

static void on_answer(struct sender *sender, const struct event *ev, enum outcome outcome)
{
	struct entry *e = (struct entry *)sender;

	(void)ev, (void)outcome;
	e->unsettled--;
	if (is_durable(e))
		on_durable(e->ledger, e);
}

/* --- a frame --- */

static struct entry *open_entry(struct ledger *l)
{
	if (l->open)
		return l->open;
	l->open = memory_calloc(1, sizeof(*l->open));
	l->open->sender = (struct sender){.answer = on_answer, .resends = l->settings.resends};
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

void ledger_owe_ack(struct ledger *l, struct slice ack)
{
	struct entry *e = open_entry(l);

	if (!e->is_rejected) {
		keep(l, &e->ack, ack);
		e->came_ms = l->now_ms;
		e->owed = 1;
		l->unacked++;
		if (l->settings.is_at_once)
			make_due(l, e);
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
	else if (!list_is_empty(&l->due))
		l->settings.on_ack_due(l->settings.conn_arg);
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
	list_init(&l->due);
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
