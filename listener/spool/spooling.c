/* spooling.c decides which events go to disk: those that nobody would resend and that have not settled for a while. If
 * memory is short, it drops events that are on disk from memory, the newest first. */
#include "spool/spooling.h"

#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/memory.h"
#include "event/line_minutes.h"

#define READ_MOST (1u << 20) /* bytes read back at once */
#define LOOK_MOST 16384      /* events per turn that are checked for leaving memory */
#define CHUNK     512        /* claims per script call */

/* The name of a source or sender. */
struct name {
	struct list link;
	char text[];
};

struct spooling {
	uv_loop_t *loop;
	const struct config *config;
	struct events *events;
	struct spooling_callbacks on;
	struct spool *spool; /* NULL: no --spool */
	int64_t after_us;    /* ms an event may take before it is written; 0: it is written before it is claimed */
	/* Events, linked by spool_link, in order of arrival: */
	struct list fresh;   /* not yet given to the spool */
	struct list writing; /* given, but not yet written */
	struct list written; /* on disk */
	struct list names;   /* names of sources in records */
	bool was_out;        /* the last check found that the spool cannot be written */
	int64_t due_ms;      /* loop clock: next event to be written; 0: none */
	bool is_draining;    /* draining: write at once, read nothing */
	bool is_leaving;     /* spooling_leave() was called */
	bool is_syncing;     /* the last records are being written */
	bool is_stopped;     /* the drain is over */
};

static int64_t now_ms(const struct spooling *s)
{
	return (int64_t)uv_now(s->loop);
}

static const char *name_of(struct spooling *s, struct slice text)
{
	struct name *n;

	list_each(node, after, &s->names) {
		n = list_entry(node, struct name, link);
		if (strlen(n->text) == text.len && memcmp(n->text, text.at, text.len) == 0)
			return n->text;
	}
	n = memory_calloc(1, sizeof(*n) + text.len + 1);
	memcpy(n->text, text.at, text.len);
	list_append(&s->names, &n->link);
	return n->text;
}

/* --- what is written --- */

/* True if its sender would resend it; even after our death if is_lasting. */
static bool is_repeated(const struct event *ev, bool is_lasting)
{
	for (const struct copy *c = &ev->first; c; c = c->next)
		if (c->sender && c->sender->resends && !(is_lasting && c->sender->forgets))
			return true;
	return false;
}

bool spooling_take(struct spooling *s, struct event *ev, bool is_ours)
{
	if (!s->spool || is_repeated(ev, true))
		return false;
	list_append(&s->fresh, &ev->spool_link);
	ev->is_unclaimed = !s->after_us && ev->state == EV_CLAIMING && !spool_is_out(s->spool);
	ev->is_ours = is_ours;
	return ev->is_unclaimed;
}

static void claim_at_last(struct spooling *s, struct event *ev)
{
	if (!ev->is_unclaimed)
		return;
	ev->is_unclaimed = false;
	s->on.begin(s->on.arg, ev, ev->is_ours);
}

void spooling_settle(struct spooling *s, struct event *ev)
{
	if (ev->segment)
		spool_settle(s->spool, ev->segment);
	if (ev->doubted)
		spool_settle(s->spool, ev->doubted);
	ev->segment = ev->doubted = NULL;
}

/* The record that was in doubt is given up once there is another one. */
static void settle_one(struct spooling *s, struct event *ev, bool is_written)
{
	struct spool_segment *over = is_written ? ev->doubted : ev->segment;

	ev->segment = is_written ? ev->segment : ev->doubted;
	ev->doubted = NULL;
	if (over)
		spool_settle(s->spool, over);
}

static void append(struct spooling *s, struct event *ev)
{
	const char *source = event_source(ev);
	struct record r = {.kind = ev->source ? RECORD_EVENT : RECORD_MESSAGE,
			   .has_time = ev->has_time,
			   .came_us = ev->came_us,
			   .time_us = ev->time_us,
			   .source = {source, source ? strlen(source) : 0},
			   .message = {ev->message, ev->message_len}};

	if (ev->source) {
		r.id = (struct slice){ev->id, ev->id_len};
		r.type = (struct slice){ev->type, ev->type_len};
	}
	ev->doubted = ev->segment; /* see on_doubt */
	ev->segment = spool_append(s->spool, &r);
	ev->ordinal = r.ordinal;
	list_remove(&ev->spool_link);
	list_append(&s->writing, &ev->spool_link);
}

static size_t budget(const struct spooling *s)
{
	return (size_t)s->config->inflight_bytes;
}

/* While the spool cannot be written, events do not wait for it. */
static void check_out(struct spooling *s)
{
	bool is_out = spool_is_out(s->spool);

	if (is_out && !s->was_out) {
		list_each(node, after, &s->fresh)
			claim_at_last(s, list_entry(node, struct event, spool_link));
		list_each(given, behind, &s->writing)
			claim_at_last(s, list_entry(given, struct event, spool_link));
	}
	s->was_out = is_out;
}

static void append_due(struct spooling *s)
{
	bool is_urgent = s->is_draining || s->events->bytes >= budget(s) / 2;
	int64_t until_us = now_ms(s) * 1000 - s->after_us;

	s->due_ms = 0;
	list_each(node, after, &s->fresh) {
		struct event *ev = list_entry(node, struct event, spool_link);

		if (!is_urgent && ev->received_us > until_us) {
			s->due_ms = now_ms(s) + (ev->received_us - until_us) / 1000;
			break;
		}
		if (!spool_can_take(s->spool))
			break;
		append(s, ev);
	}
	check_out(s);
	spool_flush(s->spool);
}

/* Puts events that must be written again before the events in fresh, which are younger. */
static void put_back(struct spooling *s, struct list *failed)
{
	list_each(node, after, &s->fresh) {
		list_remove(node);
		list_append(failed, node);
	}
	list_each(again, behind, failed) {
		list_remove(again);
		list_append(&s->fresh, again);
	}
}

static void on_written(void *arg, uint64_t last, bool is_written)
{
	struct spooling *s = arg;
	struct list failed;

	list_init(&failed);
	list_each(node, after, &s->writing) {
		struct event *ev = list_entry(node, struct event, spool_link);

		if (ev->ordinal > last)
			break;
		list_remove(node);
		list_append(is_written ? &s->written : &failed, node);
		counters.spooled += is_written;
		settle_one(s, ev, is_written);
		claim_at_last(s, ev);
	}
	put_back(s, &failed);
}

/* Writes again what is in memory. */
static void on_doubt(void *arg)
{
	struct spooling *s = arg;

	put_back(s, &s->written);
}

/* --- what leaves memory --- */

static bool may_leave(const struct event *ev)
{
	return (ev->state == EV_HELD || ev->state == EV_BATCHED) && ev->is_in_table && !ev->behind &&
	       !event_has_failed(ev) && !is_repeated(ev, false) && !ev->order;
}

/* Counts this event on its lines: its record names only one source and no line. */
static void note_lines(const struct event *ev)
{
	struct line_copy copy = {event_origin(ev),   ev->lines & ~1u, ev->id_hash.half[0], 0,
				 ev->came_us / 1000, false,           ev->after_ms};

	if (ev->lines & 1u)
		line_minutes_put_away(&line_minutes, copy.source, copy.came_ms, true);
	line_minutes_settle(&line_minutes, &copy);
	copy.source = ev->also;
	copy.lines = ev->also_lines;
	copy.after_ms = NULL;
	line_minutes_settle(&line_minutes, &copy);
}

/* Releases their claims: any listener with a copy may store it. */
static void put_away(struct spooling *s, struct event **evs, size_t n)
{
	struct event *claimed[CHUNK];
	size_t claims = 0;

	for (size_t i = 0; i < n; i++)
		if (evs[i]->is_claimed)
			claimed[claims++] = evs[i];
	if (claims)
		s->on.release(s->on.arg, claimed, claims);
	for (size_t i = 0; i < n; i++) {
		spool_put_away(evs[i]->segment, evs[i]->ordinal);
		counters.duplicates += evs[i]->copies - 1;
		note_lines(evs[i]);
		event_put_away(s->events, evs[i]);
	}
}

static void shrink(struct spooling *s)
{
	struct event *chunk[CHUNK];
	size_t n = 0, bytes = s->events->bytes;
	struct list *node = s->written.prev, *before;

	for (int i = 0; i < LOOK_MOST && node != &s->written && bytes >= budget(s) / 2; i++, node = before) {
		struct event *ev = list_entry(node, struct event, spool_link);

		before = node->prev;
		if (!may_leave(ev))
			continue;
		bytes -= ev->bytes;
		chunk[n++] = ev;
		if (n == CHUNK) {
			put_away(s, chunk, n);
			n = 0;
		}
	}
	put_away(s, chunk, n);
}

/* --- what comes back --- */

void spooling_join(struct spooling *s, struct event *ev, struct spool_segment *segment, uint64_t ordinal)
{
	spooling_settle(s, ev); /* one record is enough, and this one is on disk */
	s->events->back += !ev->is_back;
	ev->is_back = true;
	ev->segment = segment;
	ev->ordinal = ordinal;
	list_remove(&ev->spool_link);
	list_append(&s->written, &ev->spool_link);
	claim_at_last(s, ev);
}

static void on_record(void *arg, struct spool_segment *segment, const struct record *r)
{
	struct spooling *s = arg;
	const char *name = name_of(s, r->source);

	if (s->is_stopped) {
		spool_put_away(segment, r->ordinal);
		return;
	}
	s->events->away--; /* it is counted once more */
	s->events->messages--;
	counters.unspooled++;
	line_minutes_put_away(&line_minutes, name, r->came_us / 1000, false);
	s->on.restore(s->on.arg, r, *name ? name : NULL, segment);
}

static void on_lost(void *arg, uint64_t n)
{
	struct spooling *s = arg;

	counters.spool_lost += n;
	s->events->away -= n;
	s->events->messages -= n;
	s->on.on_lost(s->on.arg);
}

/* --- a turn, and the end --- */

/* True if everything that can be written is written. */
static void check_left(struct spooling *s)
{
	if (!s->is_leaving || s->is_syncing || !list_is_empty(&s->writing) ||
	    !(list_is_empty(&s->fresh) || spool_is_out(s->spool)))
		return;
	s->is_syncing = true;
	spool_sync(s->spool, s->on.on_left, s->on.arg);
}

void spooling_turn(struct spooling *s)
{
	const size_t *counts = s->events->counts;
	size_t read = budget(s) / 16 < READ_MOST ? budget(s) / 16 : READ_MOST;

	if (!s->spool)
		return;
	append_due(s);
	shrink(s);
	/* Read only what the next batch needs, since producers wait behind these rows. */
	if (!s->is_draining && s->events->bytes < budget(s) / 4 &&
	    counts[EV_CLAIMING] + counts[EV_BATCHED] < (size_t)s->config->batch_max)
		spool_read(s->spool, read);
	check_left(s);
}

bool spooling_leave(struct spooling *s)
{
	s->is_leaving = s->spool;
	return s->is_leaving;
}

size_t spooling_unsafe(const struct spooling *s)
{
	size_t n = 0;

	list_each(node, after, &s->events->ordered)
		n += list_entry(node, struct event, order_link)->copies;
	list_each(node, after, &s->written)
		n -= list_entry(node, struct event, spool_link)->copies;
	return n;
}

int64_t spooling_wait(const struct spooling *s)
{
	return !s->due_ms ? -1 : s->due_ms > now_ms(s) ? s->due_ms - now_ms(s) : 0;
}

void spooling_drain(struct spooling *s)
{
	s->is_draining = true;
}

void spooling_stop(struct spooling *s)
{
	s->is_stopped = true;
}

struct spooling *spooling_new(uv_loop_t *loop, const struct config *config, struct events *events,
			      const struct spooling_callbacks *callbacks)
{
	struct spooling *s = memory_calloc(1, sizeof(*s));

	s->loop = loop;
	s->config = config;
	s->events = events;
	s->on = *callbacks;
	s->after_us = config->spool_after_ms * 1000;
	list_init(&s->fresh);
	list_init(&s->writing);
	list_init(&s->written);
	list_init(&s->names);
	return s;
}

void spooling_use(struct spooling *s, struct spool *spool)
{
	const struct spool_callbacks on = {on_written, on_doubt, on_record, on_lost, s};

	s->spool = spool;
	if (!spool)
		return;
	spool_listen(spool, &on);
	s->events->away = s->events->messages = spool_view(spool).events;
	counters.received += s->events->away;
}

struct spool *spooling_spool(const struct spooling *s)
{
	return s->spool;
}

void spooling_close(struct spooling *s, void (*done)(void *arg), void *arg)
{
	if (s->spool)
		spool_close(s->spool, done, arg);
}

void spooling_free(struct spooling *s)
{
	list_each(node, after, &s->names)
		free(list_entry(node, struct name, link));
	free(s);
}
