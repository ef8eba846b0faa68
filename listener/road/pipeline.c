/* pipeline.c owns the road of an event: which stage comes next.
 *
 *     source ──┐                            ┌─ mine ──▶ batch ──▶ store ──▶ settle: mark, ack, free
 *              ├─▶ envelope ──▶ event ──▶ claim ─ done ──────────────────────▶ settle
 *     ingest ──┘   bytes to     one entry   └─ other's ─▶ hold ── done ──────▶ settle
 *        │         slices       per id │       ▲ ▲          └──── gone ──▶ claim again
 *        │                             └ left ─┘ └── released after a failed store
 *        └─ refuse ──▶ bury (a dead letter) ──▶ settle
 *
 * The stages do not know each other; each reports to a function on_x below, and only these decide.
 * When in doubt, an event goes to the store and is not dropped: Redis saves work, Postgres decides.
 * An event leaves memory only by settle(), which is called with knowledge: its row is committed,
 * a done mark was read, or its dead letter is committed. */
#include "road/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/keyed.h"
#include "base/memory.h"
#include "base/rare.h"
#include "road/batch.h"
#include "road/duplicates.h"
#include "road/envelope.h"
#include "road/hold.h"
#include "base/log.h"
#include "road/checkin.h"
#include "road/pace.h"
#include "road/rejected.h"
#include "road/age_limit.h"
#include "road/stall.h"
#include "road/members.h"
#include "road/turns.h"
#include "base/counters.h"

#define LOOK_CHUNK      512        /* keys of one MGET, claims of one script call */
#define BATCH_BYTES     (8u << 20) /* of messages in one statement */
#define PUT_OFF_STEP    8          /* and the longest wait of an event that the store puts off: 12.8 s */
#define RETRY_STEP      2          /* hold step of the first backoff: 50 ms * 2^2 = 200 ms */
#define DEFER_STEP      0          /* 50 ms, in which the preferred instance claims and often commits; */
#define DEFER_LOOKS     2          /* 100 and 200 ms more for one that lags behind, */
#define LOG_LOOKS       4          /* and 400 and 800 more where the log of a large fleet is late */
#define LATE_FADES      1024       /* of how late it is, each copy that it settles takes so small a part away */
#define NEWEST_LEAST    1000       /* rows that are read as the newest, and twice as many as events are held, */
#define NEWEST_MOST     50000      /* up to this */
#define DOUBTS          4          /* 50, 100, 200 and 400 ms for Postgres to tell its epoch */
#define GIVE_WAY_STEP   5          /* 1.6 s, which is more than hold_look_step() ever waits */
#define CLAIM_WINDOW    8192       /* claims unanswered at which reading stops, */
#define DEFER_WINDOW    6144       /* or events left to others and not yet looked at, */
#define TURN_WINDOW     8192       /* or, without Redis, not yet seen stored */
#define BACKLOG_BATCHES 4          /* batches that wait for a Postgres that works, before reading stops */
#define SUSPECTS_MAX    8          /* events that failed before in one statement */
#define BEHIND_BATCHES  4     /* batches in a row behind which another one waits, before a connection more is opened */
#define UNUSED_MS       10000 /* after which that is closed, */
#define USELESS_MS      60000 /* and not opened again for so long, if it had no connection */
#define BURIAL_BATCHES  4     /* batches of events between two of few dead letters */
#define BURIAL_WAIT_MS  1000  /* after dead letters that could not be written */
#define LEAVE_MS        1000  /* for the last check-in */
#define WHOLE           8     /* eighths of all limits */
#define OF_PRODUCERS    6     /* eighths that producers may fill where there are feeds */
#define WATCH_MS        250   /* between two looks whether rows can be stored */
#define PROBE_MS        1000  /* between two tries of a listener that stalls */
#define REST_MS         10000 /* for so long one that has nothing to try rests */
#define HOLD_TTLS       2     /* claim TTLs after which a held copy goes to the store */

/* When reading stops: for all at the limits, for producers earlier where there are feeds. A feed has no replay,
 * and so is not stopped for the sake of producers. */
struct gate {
	size_t eighths; /* of the limits, at which it closes */
	bool is_full;   /* the budget is used up */
	bool is_behind; /* one of the windows is, or Postgres is behind */
};

/* What this listener does with events. */
enum life {
	LIFE_WORKING,
	LIFE_RESTING,  /* it stalls, the others know, and it leaves claims to them */
	LIFE_DRAINING, /* nothing waits for others any more */
	LIFE_DRAINED,
};

static const char *const life_names[] = {"working", "resting", "draining", "drained"};

/* What is told to the database once a minute, and once more at the end. */
enum telling {
	TELLING_TOLD, /* the timer says when to tell again */
	TELLING_DUE,
	TELLING_SENT,      /* there is no answer yet */
	TELLING_LAST_SENT, /* the last one is on its way */
	TELLING_OVER,      /* it has arrived or is given up */
};

static const char *const telling_names[] = {"told", "due", "sent", "last sent", "over"};

/* One of two stores, each with a connection of its own, and the batch that it is at work on. */
struct writer {
	struct pipeline *pipeline;
	struct store *store;     /* NULL: there was no need for it yet */
	struct batch batches[2]; /* in turn: one is at work in the store or empty, and */
	struct batch *batch;     /* this one; the other is being told of, or empty */
	int64_t sent_ms;         /* loop clock, of the last batch of events, or when it was opened */
	uint32_t epoch;          /* of its database; 0 if unknown or not connected */
	bool is_closing;
};

struct pipeline {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline_callbacks on;
	struct envelope *envelope;
	struct age_limit stale, feed_stale;
	enum timestamp_unit time_unit; /* of --time-pointer */
	struct events events;
	struct claim *claim;
	struct writer first;    /* does all there is to do; */
	struct writer second;   /* only helps with events, where one backend of Postgres is not enough */
	unsigned int behind;    /* batches in a row behind which as many rows waited */
	int64_t second_from_ms; /* loop clock: that one is not opened before, because it could not be used */
	struct hold hold;
	struct turns turns;
	struct pace pace;
	struct members members;
	long partial_bytes; /* of messages that are not yet complete */
	struct gate producers, all;
	enum pressure pressure;
	size_t deferred;     /* events left to others and not yet looked at, */
	size_t in_turn;      /* and without Redis, that wait for their turn */
	int64_t log_late_us; /* how old they were that the log should have told and a look found done */
	enum life life;
	struct stall stall;
	int64_t probed_ms; /* loop clock, of the last try of one that rests */
	struct checkin checkin;
	enum telling telling;
	struct cursors cursors;
	struct {
		const char *const *sources;
		size_t count;
		pipeline_cursor_cb *cb; /* NULL: nobody asks */
		void *arg;
	} reading;
	uint32_t epoch;                  /* of the database, as far as it was told; 0: never */
	void (*on_forgotten)(void *arg); /* NULL: nobody wants to know */
	void *on_forgotten_arg;
	bool doubts_marks;
	bool had_suspects;         /* the last batch of events */
	unsigned int since_burial; /* batches of events since the last one of dead letters */
	uv_prepare_t turn;         /* before each wait for I/O: what this turn brought is sent */
	uv_timer_t hold_timer;
	uv_timer_t renew_timer;
	uv_timer_t drain_timer;
	uv_timer_t checkin_timer;
	uv_timer_t burial_timer; /* runs while dead letters have to wait */
	uv_timer_t watch_timer;
	int open; /* parts left to close */
	void (*done)(void *arg);
	void *done_arg;
};

/* The arg of a store's callbacks is its writer. */
static struct pipeline *pipeline_of(void *writer)
{
	return ((struct writer *)writer)->pipeline;
}

static int64_t now_ms(const struct pipeline *p)
{
	return (int64_t)uv_now(p->loop);
}

static int64_t ttl_ms(const struct pipeline *p)
{
	return p->config->claim_ttl_s * 1000;
}

static void set_life(struct pipeline *p, enum life life)
{
	log_debug("pipeline", "from=%s to=%s", life_names[p->life], life_names[life]);
	assert(life >= LIFE_DRAINING ? life > p->life : p->life < LIFE_DRAINING);
	p->life = life;
}

static bool is_resting(const struct pipeline *p)
{
	return p->life == LIFE_RESTING;
}

static bool is_draining(const struct pipeline *p)
{
	return p->life >= LIFE_DRAINING;
}

/* --- the budget --- */

size_t pipeline_bytes(const struct pipeline *p)
{
	return p->events.bytes + (size_t)p->partial_bytes;
}

static void tell_memory(const struct gate *g, size_t bytes, size_t limit)
{
	const char *what =
		g->is_full ? "memory limit reached, reading paused" : "below the memory limit, reading resumed";

	if (g->eighths < WHOLE)
		what = g->is_full ? "producers use up their share of memory, not reading from them"
				  : "reading from producers again";
	log_write(g->is_full ? LOG_WARN : LOG_INFO, what, "in_flight_bytes=%zu limit=%zu", bytes, limit);
}

/* Reading stops at the limit and goes on at seven eighths of it, so that it does not flap. */
static void check_memory(const struct pipeline *p, struct gate *g)
{
	size_t bytes = pipeline_bytes(p);
	size_t limit = (size_t)p->config->inflight_bytes / WHOLE * g->eighths;

	if (g->is_full ? bytes >= limit - limit / 8 : bytes < limit)
		return;
	g->is_full = !g->is_full;
	counters.pauses += g == &p->all && g->is_full;
	counters.ingest_pauses += g == &p->producers && g->is_full;
	if (g == &p->all || g->eighths < WHOLE)
		tell_memory(g, bytes, limit);
}

/* Messages can be read faster than Redis answers, than Postgres stores, and than the other instances
 * read them. Then reading waits: a claim whose answer comes too late would count as an outage, a longer
 * queue of rows is only memory and latency, and ten thousand copies of what another instance has not
 * even read cost more than all else, as none of them is in the processor's cache when its time comes. When Postgres
 * stalls, the queue may take the whole budget, because a feed has no replay and may not wait for us. */
static bool is_over(const struct pipeline *p, size_t eighths)
{
	size_t rows = BACKLOG_BATCHES * (size_t)p->config->batch_max * eighths / WHOLE;
	size_t bytes = BACKLOG_BATCHES * BATCH_BYTES / WHOLE * eighths;
	bool is_backed_up = p->events.counts[EV_BATCHED] >= rows || p->events.message_bytes[EV_BATCHED] >= bytes;

	return p->events.counts[EV_CLAIMING] >= CLAIM_WINDOW / WHOLE * eighths ||
	       p->deferred >= DEFER_WINDOW / WHOLE * eighths ||
	       ((is_backed_up || p->in_turn >= TURN_WINDOW / WHOLE * eighths) && !store_is_stalled(p->first.store));
}

static bool is_closed(const struct pipeline *p, struct gate *g)
{
	check_memory(p, g);
	g->is_behind = is_over(p, g->is_behind ? g->eighths / 2 : g->eighths);
	return g->is_full || g->is_behind;
}

static void check_budget(struct pipeline *p)
{
	bool is_for_producers = is_closed(p, &p->producers);
	enum pressure now = is_closed(p, &p->all) ? PRESSURE_ALL
			    : is_for_producers    ? PRESSURE_PRODUCERS
						  : PRESSURE_NONE;

	if (now == p->pressure)
		return;
	p->pressure = now;
	p->on.on_pressure(p->on.arg, now);
}

void pipeline_charge(struct pipeline *p, long bytes)
{
	p->partial_bytes += bytes;
	if (bytes > 0)
		check_budget(p);
}

/* --- check-ins --- */

static void set_telling(struct pipeline *p, enum telling telling)
{
	log_debug("check-in", "from=%s to=%s", telling_names[p->telling], telling_names[telling]);
	assert(p->telling < TELLING_LAST_SENT || telling == TELLING_OVER);
	p->telling = telling;
}

/* One that is late is not waited for any longer. */
static void on_checkin_timer(uv_timer_t *timer)
{
	struct pipeline *p = timer->data;

	set_telling(p, p->telling < TELLING_LAST_SENT ? TELLING_DUE : TELLING_OVER);
}

/* A batch would have to wait for it, but it comes once a minute and takes a millisecond. */
static void send_checkin(struct pipeline *p, bool is_last)
{
	char *text = checkin_write(&p->checkin, is_last, now_ms(p));
	bool is_sent = store_checkin(p->first.store, text) == 0;

	if (is_last)
		set_telling(p, is_sent ? TELLING_LAST_SENT : TELLING_OVER);
	else if (is_sent)
		set_telling(p, TELLING_SENT);
	free(text);
}

static void on_checked_in(void *arg, bool is_told, const char *answer)
{
	struct pipeline *p = pipeline_of(arg);
	const char *why = is_told ? checkin_read(&p->checkin, answer) : NULL;

	if (p->telling == TELLING_LAST_SENT)
		set_telling(p, TELLING_OVER);
	else if (p->telling == TELLING_SENT)
		set_telling(p, TELLING_TOLD);
	if (why && !is_draining(p))
		p->on.on_unusable(p->on.arg, why, 1);
}

void pipeline_on_checkin(struct pipeline *p, json_t *(*describe)(void *arg), void *arg)
{
	p->checkin.describe = describe;
	p->checkin.arg = arg;
}

void pipeline_hasten_checkin(struct pipeline *p)
{
	if (p->telling == TELLING_TOLD)
		set_telling(p, TELLING_DUE);
}

/* --- cursors --- */

void pipeline_put_cursor(struct pipeline *p, const struct cursor *cursor)
{
	cursors_put(&p->cursors, cursor);
}

void pipeline_read_cursors(struct pipeline *p, const char *const *sources, size_t n, pipeline_cursor_cb *cb, void *arg)
{
	assert(!p->reading.cb);
	p->reading.sources = sources;
	p->reading.count = n;
	p->reading.cb = cb;
	p->reading.arg = arg;
}

void pipeline_on_forgotten(struct pipeline *p, void (*fn)(void *arg), void *arg)
{
	p->on_forgotten = fn;
	p->on_forgotten_arg = arg;
}

static void send_cursors(struct pipeline *p)
{
	cursors_send(&p->cursors, now_ms(p));
	if (store_put_cursors(p->first.store, &p->cursors, p->epoch))
		cursors_answer(&p->cursors, false);
}

static void on_cursors_put(void *arg, bool is_stored)
{
	struct pipeline *p = pipeline_of(arg);

	cursors_answer(&p->cursors, is_stored);
}

/* What could not be asked is asked again. */
static void on_cursor_read(void *arg, const struct cursor *cursor, bool is_read)
{
	struct pipeline *p = pipeline_of(arg);
	pipeline_cursor_cb *cb = p->reading.cb;

	if (!cursor && !is_read)
		return;
	if (!cursor)
		p->reading.cb = NULL;
	cb(p->reading.arg, cursor);
}

/* --- the end --- */

/* Is there nothing to wait for before the end? The cursors and the last check-in are sent only if Postgres is there. */
static bool has_left(struct pipeline *p)
{
	if (store_is_idle(p->first.store) && cursors_are_due(&p->cursors, true, now_ms(p)))
		send_cursors(p);
	if (cursors_are_sent(&p->cursors))
		return false;
	if (p->telling < TELLING_LAST_SENT && store_is_idle(p->first.store)) {
		send_checkin(p, true);
		uv_timer_start(&p->checkin_timer, on_checkin_timer, LEAVE_MS, 0);
	}
	return p->telling != TELLING_SENT && p->telling != TELLING_LAST_SENT;
}

/* --- settle --- */

static void refuse(struct pipeline *p, struct event *ev, const char *why)
{
	if (why)
		event_set_reason(ev, why);
	event_move(&p->events, ev, EV_REFUSED);
}

static void take_claim(struct pipeline *p, struct event *ev);

static void check_drained(struct pipeline *p)
{
	if (p->life != LIFE_DRAINING || p->events.messages || claim_unanswered(p->claim) || !has_left(p))
		return;
	set_life(p, LIFE_DRAINED);
	p->on.on_drained(p->on.arg, 0);
}

static void end_deferral(struct pipeline *p, struct event *ev)
{
	p->deferred -= ev->is_deferred;
	ev->is_deferred = false;
}

static void end_turn(struct pipeline *p, struct event *ev)
{
	p->in_turn -= ev->has_turn;
	ev->has_turn = false;
}

static void finish(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	end_deferral(p, ev);
	end_turn(p, ev);
	switch (outcome) {
	case OUTCOME_PERSISTED:
		counters.persisted++;
		counters.duplicates += ev->copies - 1;
		histogram_observe(&commit_latency, (double)(now_ms(p) * 1000 - ev->received_us) / 1000);
		break;
	case OUTCOME_DUPLICATE:
		counters.duplicates += ev->copies;
		break;
	case OUTCOME_REJECTED:
		counters.dead_lettered += ev->copies;
		rejected_add(ev->id_len   ? REJECTED_EVENT
			     : ev->source ? REJECTED_PROFILE
					  : REJECTED_MESSAGE,
			     ev->copies);
		if (ev->reason)
			rejected_checkin(ev->reason, ev->message, ev->message_len);
		break;
	}
	event_move(&p->events, ev, EV_DONE);
	event_finish(&p->events, ev, outcome);
}

/* A message that waited behind another, and is not tried any more, becomes a dead letter. */
static void set_aside(struct pipeline *p, struct event *ev, const char *why)
{
	ev->is_loose = true;
	refuse(p, ev, why);
}

/* ev leaves its place to another message with its id, which is tried now. */
static void try_next(struct pipeline *p, struct event *ev, struct event *next)
{
	event_give_place(&p->events, ev, next);
	if (next->is_claimed) {
		event_move(&p->events, next, EV_BATCHED);
		return;
	}
	event_move(&p->events, next, EV_CLAIMING);
	take_claim(p, next);
}

/* What is left behind an event that has settled; behind a dead letter, only what was too old for a try. */
static void settle_behind(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	for (struct event *after; ev; ev = after) {
		after = ev->behind;
		ev->behind = NULL;
		if (outcome == OUTCOME_REJECTED) {
			counters.stale++;
			set_aside(p, ev, NULL);
		} else {
			finish(p, ev, OUTCOME_DUPLICATE);
		}
	}
}

/* A row makes all messages with its id duplicates. A dead letter speaks of one of them. */
static void settle(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	struct event *next = outcome == OUTCOME_REJECTED ? event_next(ev) : NULL, *behind;

	ev->is_claimed &= outcome != OUTCOME_REJECTED; /* a mark is there instead */
	if (next)
		try_next(p, ev, next);
	behind = ev->behind;
	finish(p, ev, outcome);
	settle_behind(p, behind, outcome);
}

/* --- batch and store --- */

/* The last one may not be told of to its end. */
static void begin_batch(struct writer *w)
{
	w->batch = &w->batches[w->batch == w->batches];
	batch_clear(w->batch);
}

static void bury_next(struct pipeline *p)
{
	struct writer *w = &p->first;

	begin_batch(w);
	list_each(node, after, &p->events.lists[EV_REFUSED]) {
		struct event *ev = list_entry(node, struct event, link);

		if (!batch_add(w->batch, ev))
			break;
		event_move(&p->events, ev, EV_BURYING);
	}
	store_bury(w->store, w->batch);
}

static void fill_batch(struct writer *w, bool has_suspects)
{
	struct pipeline *p = w->pipeline;
	struct batch *b = w->batch;

	list_each(node, after, &p->events.lists[EV_BATCHED]) {
		struct event *ev = list_entry(node, struct event, link);

		if (event_has_failed(ev) != has_suspects || (w == &p->second && ev->is_handed))
			continue;
		if ((has_suspects && b->count == SUSPECTS_MAX) || !batch_add(b, ev))
			return;
		event_move(&p->events, ev, EV_STORING);
	}
}

/* --- who else is there, without Redis --- */

/* Those who were there when Redis went are followed until all of them can have told Postgres that they are. */
static bool follows_members(const struct pipeline *p)
{
	return !claim_is_ready(p->claim) &&
	       (claim_others(p->claim) ? members_are_all(&p->members) : members_are_told(&p->members));
}

static size_t others(const struct pipeline *p)
{
	return follows_members(p) ? members_size(&p->members) : claim_others(p->claim);
}

static size_t rank_of(const struct pipeline *p, const struct event *ev)
{
	return follows_members(p) ? members_rank(&p->members, ev->id, ev->id_len) : claim_rank(p->claim, ev);
}

static bool ask_members(struct pipeline *p)
{
	if (is_draining(p) || members_wait(&p->members, now_ms(p)))
		return false;
	if (store_read_members(p->first.store, members_asked(&p->members, now_ms(p))) == 0)
		return true;
	members_answered(&p->members, false);
	return false;
}

static void on_member(void *arg, const char *name, size_t len, bool is_told)
{
	struct pipeline *p = pipeline_of(arg);

	if (name)
		members_found(&p->members, name, len);
	else
		members_answered(&p->members, is_told);
}

/* --- what is stored next --- */

/* Many small statements would cost more than few. Without Redis each listener of a fleet stores its part. */
static int64_t store_wait(struct pipeline *p)
{
	size_t rows = p->events.counts[EV_BATCHED];
	int64_t pause, turn;

	if (is_draining(p) || rows >= (size_t)p->config->batch_max)
		return 0;
	pause = pace_wait(&p->pace, rows, now_ms(p));
	turn = turns_store_wait(&p->turns, others(p), now_ms(p));
	return pause > turn ? pause : turn;
}

static void insert_batch(struct writer *w)
{
	struct pipeline *p = w->pipeline;

	w->sent_ms = p->turns.stored_ms = now_ms(p);
	batch_sort(w->batch);
	store_insert(w->store, w->batch);
	pace_sent(&p->pace, w->batch->count, now_ms(p));
}

/* Do as many rows wait as fill a batch? */
static bool is_behind(const struct pipeline *p)
{
	return p->events.counts[EV_BATCHED] >= (size_t)p->config->batch_max ||
	       p->events.message_bytes[EV_BATCHED] >= BATCH_BYTES;
}

/* Events that failed before take turns with the others, a few at a time: each may wait for a lock again. */
static void insert_next(struct pipeline *p)
{
	const struct event *first = list_entry(p->events.lists[EV_BATCHED].next, struct event, link);
	bool has_suspects = event_has_failed(first) && !p->had_suspects;
	struct batch *b;

	begin_batch(&p->first);
	b = p->first.batch;
	fill_batch(&p->first, has_suspects);
	if (!b->count)
		fill_batch(&p->first, !has_suspects);
	p->had_suspects = event_has_failed(b->events[0]);
	p->behind = is_behind(p) ? p->behind + 1 : 0;
	insert_batch(&p->first);
}

/* Dead letters and events take turns. But a statement takes its time however few rows it has, above all
 * where Postgres is far or busy: one client that sends garbage would take every second one. */
static bool is_burial_due(const struct pipeline *p)
{
	size_t refused = p->events.counts[EV_REFUSED], batched = p->events.counts[EV_BATCHED];

	if (uv_is_active((const uv_handle_t *)&p->burial_timer))
		return false;
	return refused && (!batched || p->since_burial >= (refused < batched ? BURIAL_BATCHES : 1));
}

/* Is there an event whose mark may be read before a batch tells the epoch? */
static bool may_read_marks(const struct pipeline *p)
{
	const size_t *counts = p->events.counts;

	return (counts[EV_CLAIMING] || counts[EV_HELD] || counts[EV_LOOKING]) && claim_is_ready(p->claim);
}

static void end_turns(struct pipeline *p);

/* What others have stored while Redis is away is seen at once, and need not be looked for. */
static bool ask_newest(struct pipeline *p)
{
	size_t most = NEWEST_LEAST + 2 * p->events.counts[EV_HELD];

	if (turns_ask_wait(&p->turns, others(p), p->in_turn >= TURN_WINDOW / 4, now_ms(p)))
		return false;
	turns_asked(&p->turns, now_ms(p));
	if (store_read_newest(p->first.store, most < NEWEST_MOST ? most : NEWEST_MOST) == 0)
		return true;
	end_turns(p);
	return false;
}

static void open_writer(struct pipeline *p, struct writer *w);

/* One backend of Postgres runs on one core, and is idle during its commit and until the next batch arrives. If rows
 * arrive faster than it stores them, a second backend stores every other batch. The second one is not used while the
 * first is stalled, nor in a fleet without Redis, where each listener has one statement at a time. */
static void store_beside(struct pipeline *p)
{
	struct writer *w = &p->second;
	bool is_alone = RARE("pipeline: a second connection");

	if (p->config->postgres_connections < 2 || !p->first.epoch || config_store_path(p->config) ||
	    store_is_idle(p->first.store) || store_is_stalled(p->first.store) ||
	    (!claim_is_ready(p->claim) && others(p)))
		return;
	if (!w->store && now_ms(p) >= p->second_from_ms && (p->behind >= BEHIND_BATCHES || is_alone)) {
		log_info("rows come faster than one connection stores them, opening a second one", "rows=%zu",
			 p->events.counts[EV_BATCHED]);
		open_writer(p, w);
	}
	if (!w->store || w->is_closing || !store_is_idle(w->store) || !w->epoch || w->epoch != p->epoch ||
	    !(is_behind(p) || is_alone))
		return;
	begin_batch(w);
	fill_batch(w, false);
	if (w->batch->count)
		insert_batch(w);
}

/* While one batch is in flight the next one fills; pace.c makes it wait a little longer where many events come. */
static void store_first(struct pipeline *p)
{
	if (!store_is_idle(p->first.store))
		return;
	if (p->telling == TELLING_DUE || (p->telling == TELLING_TOLD && RARE("pipeline: a check-in is due"))) {
		send_checkin(p, false);
		return;
	}
	if (p->reading.cb) {
		store_read_cursors(p->first.store, p->reading.sources, p->reading.count);
		return;
	}
	if (cursors_are_due(&p->cursors, is_draining(p), now_ms(p))) {
		send_cursors(p);
		return;
	}
	if (ask_members(p) || ask_newest(p))
		return;
	if (is_burial_due(p)) {
		p->since_burial = 0;
		bury_next(p);
	} else if (p->events.counts[EV_BATCHED] && store_wait(p) == 0) {
		p->since_burial++;
		insert_next(p);
	} else if (may_read_marks(p) && !store_is_sure(p->first.store)) {
		store_ask_epoch(p->first.store);
	}
}

static void store_next(struct pipeline *p)
{
	store_first(p);
	store_beside(p);
}

static void on_idle(void *arg)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;

	stall_took(&p->stall, now_ms(p) - w->sent_ms);
	store_next(p);
}

static void send_to_store(struct pipeline *p, struct event *ev);
static void fail_store(struct pipeline *p, struct event *ev, const char *why);
static void put_off(struct pipeline *p, struct event *ev, const char *why);

/* If an event is put off again, that says nothing of others. */
static void note_result(struct pipeline *p, const struct event *ev, enum store_result result)
{
	if (result != STORE_LATER && result != STORE_BLOCKED)
		stall_stored(&p->stall);
	else if (!ev->put_offs && result == STORE_BLOCKED)
		stall_blocked(&p->stall);
	else if (!ev->put_offs)
		stall_failed(&p->stall);
}

/* What the second connection could not store is the first one's to judge, which knows how others fare; and so is what
 * it stored in a server that the first one has left, or has yet to find. */
static bool is_for_first(const struct writer *w, enum store_result result)
{
	bool is_stored = result == STORE_INSERTED || result == STORE_PRESENT;

	return w == &w->pipeline->second && (!is_stored || w->epoch != w->pipeline->epoch);
}

static void on_stored(void *arg, struct event *ev, enum store_result result, const char *why)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;

	if (is_for_first(w, result)) {
		ev->is_handed = true;
		send_to_store(p, ev);
		return;
	}
	note_result(p, ev, result);
	switch (result) {
	case STORE_INSERTED:
		claim_mark(p->claim, ev, CLAIM_MARK_DONE);
		settle(p, ev, OUTCOME_PERSISTED);
		return;
	case STORE_PRESENT:
		/* It may be ours, of a batch whose outcome nobody saw, or another message's: which, nobody can tell. */
		if (!ev->is_counted)
			duplicates_late(ev->id, ev->id_len, now_ms(p));
		claim_mark(p->claim, ev, CLAIM_MARK_DONE);
		settle(p, ev, OUTCOME_DUPLICATE);
		return;
	case STORE_LATER:
	case STORE_BLOCKED:
		put_off(p, ev, why);
		return;
	case STORE_REFUSED:
		fail_store(p, ev, why);
		return;
	case STORE_HOPELESS:
		refuse(p, ev, why);
		return;
	case STORE_UNKNOWN:
		return;
	}
}

/* The turn that follows sees to them. */
static void on_burial_timer(uv_timer_t *timer)
{
	(void)timer;
}

/* Letters that cannot be written wait beside the events. */
static void on_buried(void *arg, struct event *ev, enum store_burial burial)
{
	struct pipeline *p = pipeline_of(arg);
	bool is_stored = burial == STORE_HAS_ROW;

	if (burial == STORE_UNBURIED) {
		event_move(&p->events, ev, EV_REFUSED);
		uv_timer_start(&p->burial_timer, on_burial_timer, BURIAL_WAIT_MS, 0);
		return;
	}
	stall_stored(&p->stall);
	if (ev->id_len && !ev->is_loose)
		claim_mark(p->claim, ev, is_stored ? CLAIM_MARK_DONE : CLAIM_MARK_DEAD);
	settle(p, ev, is_stored ? OUTCOME_DUPLICATE : OUTCOME_REJECTED);
}

/* --- a failed store: count, wait, give the claim back, try again --- */

/* Another message with the id of ev, which was refused or put off, need not wait until ev is tried again: the backoff
 * is for a message, and what was wrong may be in its bytes. Returns false if each was tried as often as ev. */
static bool try_other(struct pipeline *p, struct event *ev)
{
	struct event *next = event_next(ev);

	if (!next || event_tries(next) >= event_tries(ev))
		return false;
	hold_remove(ev);
	event_move(&p->events, ev, EV_BEHIND);
	try_next(p, ev, next);
	event_put_behind(next, ev, false);
	return true;
}

static void on_counted(void *arg, struct event *ev, long attempts)
{
	struct pipeline *p = arg;
	unsigned int tries;

	ev->attempts = (uint32_t)(attempts > ev->attempts ? attempts : ev->attempts + 1);
	if (ev->attempts >= p->config->max_attempts) {
		refuse(p, ev, NULL);
		return;
	}
	if (try_other(p, ev))
		return;
	/* The claim is kept for the backoff, so that the fleet as a whole waits, and N instances do
	 * not try one after the other at once. */
	tries = ev->attempts;
	ev->is_put_off = false;
	event_move(&p->events, ev, EV_BACKING_OFF);
	hold_add(&p->hold, ev, now_ms(p), RETRY_STEP + tries - 1);
}

static void fail_store(struct pipeline *p, struct event *ev, const char *why)
{
	log_debug("row refused", "reason=%s", why);
	event_set_reason(ev, why);
	event_move(&p->events, ev, EV_COUNTING);
	if (claim_count(p->claim, ev))
		on_counted(p, ev, -1);
}

/* What the server cannot do for this listener it can seldom do for another one: the claim is kept. */
static void put_off(struct pipeline *p, struct event *ev, const char *why)
{
	unsigned int step = RETRY_STEP + ev->put_offs;

	log_debug("event postponed", "reason=%s", why);
	ev->put_offs += ev->put_offs < UINT16_MAX;
	ev->is_put_off = true;
	event_move(&p->events, ev, EV_BACKING_OFF);
	hold_add(&p->hold, ev, now_ms(p), is_draining(p) ? RETRY_STEP : step < PUT_OFF_STEP ? step : PUT_OFF_STEP);
}

/* --- claim and hold --- */

static void send_to_store(struct pipeline *p, struct event *ev)
{
	end_deferral(p, ev);
	end_turn(p, ev);
	ev->is_put_off = false;
	event_move(&p->events, ev, EV_BATCHED);
}

static void hold(struct pipeline *p, struct event *ev)
{
	if (is_draining(p)) { /* no time to wait for somebody else */
		send_to_store(p, ev);
		return;
	}
	if (!ev->held_ms)
		ev->held_ms = now_ms(p);
	event_move(&p->events, ev, EV_HELD);
	hold_add(&p->hold, ev, now_ms(p), hold_look_step(ev, ttl_ms(p)));
}

/* A mark is knowledge of the epoch that the database was in when it last said so. If that is a while ago, it is asked
 * first (see store_next), and the event waits. It is given to the store where marks are not believed, and when 50 ms
 * later the store is neither sure nor at work. What is at work there may tell the epoch, and a batch would wait for it
 * as well: for up to 0.75 s the event does so instead of being in that batch. */
static void on_mark(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	bool may_wait = ev->doubts < DOUBTS && !(ev->doubts && store_is_idle(p->first.store));

	if (store_is_sure(p->first.store) && !p->doubts_marks) {
		settle(p, ev, outcome);
	} else if (p->doubts_marks || !may_wait || is_draining(p)) {
		send_to_store(p, ev);
	} else {
		end_deferral(p, ev);
		event_move(&p->events, ev, EV_HELD);
		if (!ev->held_ms)
			ev->held_ms = now_ms(p);
		hold_add(&p->hold, ev, now_ms(p), ev->doubts++);
	}
}

/* The claim is ours: but who stalls leaves the event to others. */
static void on_mine(struct pipeline *p, struct event *ev)
{
	if (!is_resting(p)) {
		send_to_store(p, ev);
		return;
	}
	claim_release(p->claim, &ev, 1);
	hold(p, ev);
}

static void on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	struct pipeline *p = arg;

	switch (result) {
	case CLAIM_MINE:
		counters.claims_won++;
		on_mine(p, ev);
		return;
	case CLAIM_OTHER: /* being stored elsewhere, which is not yet stored */
		counters.claims_lost++;
		counters.holds += !ev->held_ms;
		hold(p, ev);
		return;
	case CLAIM_DONE:
		counters.claims_done++;
		on_mark(p, ev, OUTCOME_DUPLICATE);
		return;
	case CLAIM_DEAD:
		counters.claims_done++;
		on_mark(p, ev, OUTCOME_REJECTED);
		return;
	case CLAIM_ABSENT:  /* only a look says so */
	case CLAIM_UNKNOWN: /* Redis is gone: the unique key decides instead */
		counters.claims_skipped++;
		send_to_store(p, ev);
		return;
	}
}

static void take_claim(struct pipeline *p, struct event *ev)
{
	if (claim_take(p->claim, ev)) {
		counters.claims_skipped++;
		send_to_store(p, ev);
	}
}

/* Without Redis one instance of those that were there stores at once. What the others have waits for its turn; by then
 * it was mostly seen among the newest rows. */
static void wait_for_turn(struct pipeline *p, struct event *ev, size_t rank)
{
	p->in_turn += !ev->has_turn;
	ev->has_turn = true;
	hold_add(&p->hold, ev, now_ms(p), claim_is_logged(p->claim, ev) ? DEFER_STEP : turns_step(&p->turns, rank));
}

static void leave_without_redis(struct pipeline *p, struct event *ev, size_t rank)
{
	counters.deferred++;
	ev->held_ms = now_ms(p);
	event_move(&p->events, ev, EV_HELD);
	wait_for_turn(p, ev, rank);
}

/* Of those whose turn had come, what was not seen goes to the store; or, if Redis is back, is looked at. */
static void end_turns(struct pipeline *p)
{
	struct event *ev;

	while ((ev = turns_answered(&p->turns))) {
		end_turn(p, ev);
		if (claim_is_ready(p->claim))
			hold_add(&p->hold, ev, now_ms(p), DEFER_STEP);
		else
			send_to_store(p, ev);
	}
}

/* Redis is back, and nobody need wait for Postgres. */
static void check_turns(struct pipeline *p)
{
	if (claim_is_ready(p->claim))
		members_forget(&p->members);
	if (!claim_is_ready(p->claim) || p->turns.is_asked || list_is_empty(&p->turns.due))
		return;
	turns_asked(&p->turns, now_ms(p));
	end_turns(p);
}

/* A row that somebody has committed. */
static void on_newest(void *arg, const char *id, size_t len)
{
	struct pipeline *p = pipeline_of(arg);
	struct envelope_view view = {.id = {id, len}};
	struct event *ev;

	if (!id) {
		end_turns(p);
		return;
	}
	claim_learn(p->claim, id, len);
	view.id_hash = keyed_hash(id, len);
	ev = event_find(&p->events, &view);
	if (!ev || ev->state != EV_HELD)
		return;
	counters.turns_saved += ev->has_turn;
	if (ev->has_turn)
		turns_saw(&p->turns, ev->held_ms);
	hold_remove(ev);
	event_move(&p->events, ev, EV_LOOKING);
	settle(p, ev, OUTCOME_DUPLICATE);
}

/* Redis is away, or is back while events wait for their turn: then they wait as ever. Returns whether ev, whose wait is
 * over, goes on to wait. */
static bool is_in_turn(struct pipeline *p, struct event *ev)
{
	size_t rank = ev->is_deferred ? rank_of(p, ev) : 0;

	if (claim_is_ready(p->claim) || is_draining(p))
		return false;
	if (ev->has_turn && claim_is_logged(p->claim, ev)) {
		counters.turns_saved++;
		event_move(&p->events, ev, EV_LOOKING);
		on_mark(p, ev, OUTCOME_DUPLICATE);
		return true;
	}
	if (ev->has_turn) {
		turns_add(&p->turns, ev, now_ms(p));
	} else if (rank) {
		end_deferral(p, ev);
		wait_for_turn(p, ev, rank);
	}
	return ev->has_turn;
}

/* One instance of the fleet claims at once, and the others ask once, when it is probably done: N claims for
 * one event, of which N - 1 are in vain, would cost Redis and everybody most of their time. What nobody else gets, or
 * whose producer waits for an ack, is ours: it does not wait for somebody else first. */
static void claim_or_defer(struct pipeline *p, struct event *ev, bool is_ours)
{
	size_t rank = is_ours || is_draining(p) ? 0 : rank_of(p, ev);

	if (is_ours)
		pace_await(&p->pace, now_ms(p));
	if (!is_ours && !claim_is_ready(p->claim))
		members_hear(&p->members, now_ms(p));
	if (rank) {
		leave_without_redis(p, ev, rank);
		return;
	}
	if (is_resting(p) && claim_is_ready(p->claim)) {
		hold(p, ev);
		return;
	}
	if (is_ours || is_draining(p) ||
	    claim_prefers_other(p->claim, ev) == RARE("pipeline: the wrong one is preferred")) {
		take_claim(p, ev);
		return;
	}
	counters.deferred++;
	p->deferred++;
	ev->is_deferred = true;
	ev->looks = DEFER_STEP;
	ev->held_ms = now_ms(p);
	claim_expect_log(p->claim);
	event_move(&p->events, ev, EV_HELD);
	hold_add(&p->hold, ev, now_ms(p), DEFER_STEP);
}

/* Nobody holds the claim of an event that waits: the preferred instance is not there yet, or never will
 * be; or the owner died, or gave it back. */
static void take_over(struct pipeline *p, struct event *ev)
{
	if (is_resting(p) || (ev->is_deferred && ev->looks < DEFER_LOOKS)) {
		ev->looks++;
		hold(p, ev);
		return;
	}
	if (ev->is_deferred)
		counters.deferred_in_vain++;
	else
		counters.claims_taken_over++;
	end_deferral(p, ev);
	event_move(&p->events, ev, EV_CLAIMING);
	take_claim(p, ev);
}

/* ev is done, as a look has found. */
static void note_log_late(struct pipeline *p, const struct event *ev)
{
	int64_t us = (now_ms(p) - ev->held_ms) * 1000;

	if (ev->is_deferred && ev->looks >= DEFER_LOOKS && us > p->log_late_us)
		p->log_late_us = us;
}

static void on_looked(void *arg, struct event *ev, enum claim_result result)
{
	struct pipeline *p = arg;

	switch (result) {
	case CLAIM_MINE:
		on_mine(p, ev);
		return;
	case CLAIM_OTHER:
		end_deferral(p, ev);
		ev->looks++;
		hold(p, ev);
		return;
	case CLAIM_ABSENT:
		take_over(p, ev);
		return;
	case CLAIM_DONE:
		note_log_late(p, ev);
		on_mark(p, ev, OUTCOME_DUPLICATE);
		return;
	case CLAIM_DEAD:
		on_mark(p, ev, OUTCOME_REJECTED);
		return;
	case CLAIM_UNKNOWN:
		counters.claims_skipped++;
		send_to_store(p, ev);
		return;
	}
}

static void look(struct pipeline *p, struct event **evs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		event_move(&p->events, evs[i], EV_LOOKING);
	if (!n || claim_look(p->claim, evs, n) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		on_looked(p, evs[i], CLAIM_UNKNOWN);
}

static void inherit(struct pipeline *p, uint16_t owner, struct event **evs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		event_move(&p->events, evs[i], EV_LOOKING);
	counters.claims_inherited += n;
	if (!n || claim_inherit(p->claim, owner, evs, n) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		on_looked(p, evs[i], CLAIM_UNKNOWN);
}

/* What was held for a dead owner is not held until its claims have expired. Whose claims are already another's are held
 * again, for that one. */
static void on_owner_gone(void *arg, uint16_t owner)
{
	struct pipeline *p = arg;
	struct event *chunk[LOOK_CHUNK];
	size_t n = 0;

	if (is_resting(p))
		return;
	list_each(node, after, &p->events.lists[EV_HELD]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->owner != owner)
			continue;
		hold_remove(ev);
		chunk[n++] = ev;
		if (n == LOOK_CHUNK || RARE("pipeline: few claims are inherited at once")) {
			inherit(p, owner, chunk, n);
			n = 0;
		}
	}
	inherit(p, owner, chunk, n);
}

/* The backoff of a failed store is over: any instance may try now. This one looks again only after
 * every other has looked: what it cannot store, another may be able to. */
static void give_back(struct pipeline *p, struct event *ev)
{
	claim_release(p->claim, &ev, 1);
	ev->looks = 0;
	ev->held_ms = now_ms(p);
	if (is_draining(p) || !claim_is_ready(p->claim)) {
		send_to_store(p, ev);
		return;
	}
	event_move(&p->events, ev, EV_HELD);
	hold_add(&p->hold, ev, now_ms(p), GIVE_WAY_STEP);
}

/* An event that was put off. If its claim was given back meanwhile, its mark may say by now what became of it. */
static void try_again(struct pipeline *p, struct event *ev)
{
	if (try_other(p, ev))
		return;
	if (ev->is_claimed)
		send_to_store(p, ev);
	else
		give_back(p, ev);
}

/* A fleet whose members are late would be later still if each of them looked for each event. */
static bool may_wait_for_log(const struct pipeline *p, const struct event *ev)
{
	return ev->looks < DEFER_LOOKS ||
	       (ev->looks < LOG_LOOKS && (now_ms(p) - ev->held_ms) * 1000 < 2 * p->log_late_us);
}

/* What the log of a large fleet has told need not be looked at; nor what it may tell until the next look. Returns
 * whether that is all for now. */
static bool is_in_log(struct pipeline *p, struct event *ev)
{
	if (claim_is_logged(p->claim, ev)) {
		counters.done_logged++;
		p->log_late_us -= p->log_late_us / LATE_FADES;
		event_move(&p->events, ev, EV_LOOKING);
		on_looked(p, ev, CLAIM_DONE);
		return true;
	}
	if (!ev->is_deferred || !may_wait_for_log(p, ev) || !claim_expect_log(p->claim))
		return false;
	ev->looks++;
	hold_add(&p->hold, ev, now_ms(p), hold_look_step(ev, ttl_ms(p)));
	return true;
}

/* Events whose wait is over: looked up in chunks, given back, or sent to the store. */
static void on_hold_timer(uv_timer_t *timer)
{
	struct pipeline *p = timer->data;
	struct event *chunk[LOOK_CHUNK], *ev;
	int64_t now = now_ms(p);
	size_t n = 0;

	while ((ev = hold_due(&p->hold, now))) {
		if (ev->state == EV_BACKING_OFF && ev->is_put_off) {
			try_again(p, ev);
		} else if (ev->state == EV_BACKING_OFF) {
			give_back(p, ev);
		} else if (now - ev->held_ms >= HOLD_TTLS * ttl_ms(p) || RARE("pipeline: held for long")) {
			counters.hold_timeouts++;
			send_to_store(p, ev);
		} else if (!is_in_turn(p, ev) && !is_in_log(p, ev)) {
			chunk[n++] = ev;
		}
		if (n == LOOK_CHUNK || (n && RARE("pipeline: few looks at once"))) {
			look(p, chunk, n);
			n = 0;
		}
	}
	look(p, chunk, n);
}

/* --- leases --- */

/* Up to LOOK_CHUNK events, whose claims are for one command. */
typedef void claims_fn(struct pipeline *p, struct event **evs, size_t n);
typedef bool claim_test(const struct pipeline *p, const struct event *ev);

/* Calls act with those events of a state that have a claim and pass the test, if there is one. */
static void each_claim(struct pipeline *p, enum event_state state, claim_test *test, claims_fn *act)
{
	struct event *chunk[LOOK_CHUNK];
	size_t n = 0;

	list_each(node, after, &p->events.lists[state]) {
		struct event *ev = list_entry(node, struct event, link);

		if (!ev->is_claimed || (test && !test(p, ev)))
			continue;
		chunk[n++] = ev;
		if (n == LOOK_CHUNK || RARE("pipeline: few claims at once")) {
			act(p, chunk, n);
			n = 0;
		}
	}
	if (n)
		act(p, chunk, n);
}

static bool is_lease_due(const struct pipeline *p, const struct event *ev)
{
	return now_ms(p) - ev->lease_ms >= ttl_ms(p) / 3;
}

static void renew(struct pipeline *p, struct event **evs, size_t n)
{
	claim_renew(p->claim, evs, n);
}

/* Work that takes long keeps its claims: the TTL can be short, and a takeover fast. */
static void on_renew_timer(uv_timer_t *timer)
{
	static const enum event_state states[] = {EV_BATCHED, EV_STORING, EV_BACKING_OFF, EV_REFUSED, EV_BURYING};
	struct pipeline *p = timer->data;

	for (size_t i = 0; claim_is_ready(p->claim) && i < sizeof(states) / sizeof(*states); i++)
		each_claim(p, states[i], is_lease_due, renew);
	claim_restore(p->claim);
}

/* --- a listener that cannot store --- */

static void release(struct pipeline *p, struct event **evs, size_t n)
{
	claim_release(p->claim, evs, n);
}

static void release_and_hold(struct pipeline *p, struct event **evs, size_t n)
{
	claim_release(p->claim, evs, n);
	for (size_t i = 0; i < n; i++) {
		evs[i]->held_ms = now_ms(p);
		evs[i]->looks = 0;
		hold(p, evs[i]);
	}
}

/* Others can store what Postgres has not got from here, or has refused. What it may be at work on would make them
 * wait for its locks. */
static void give_claims_back(struct pipeline *p)
{
	each_claim(p, EV_BATCHED, NULL, release_and_hold);
	each_claim(p, EV_BACKING_OFF, NULL, release);
	each_claim(p, EV_REFUSED, NULL, release);
	if (!store_is_sent(p->first.store) && !(p->second.store && store_is_sent(p->second.store)))
		each_claim(p, EV_STORING, NULL, release);
}

/* How Postgres is, one of the events that are left to others finds out. Without any, one that comes will. */
static void probe(struct pipeline *p)
{
	int64_t since_ms = now_ms(p) - p->probed_ms;
	struct event *ev;

	if (!store_is_idle(p->first.store) || p->events.counts[EV_BATCHED] || since_ms < PROBE_MS)
		return;
	if (p->events.counts[EV_HELD]) {
		ev = list_entry(p->events.lists[EV_HELD].next, struct event, link);
		hold_remove(ev);
		send_to_store(p, ev);
		p->probed_ms = now_ms(p);
	} else if (since_ms >= REST_MS) {
		stall_stored(&p->stall);
	}
}

/* Those that were left to others may not count as held for long: nobody may have had them. */
static void stop_resting(struct pipeline *p)
{
	list_each(node, after, &p->events.lists[EV_HELD])
		list_entry(node, struct event, link)->held_ms = now_ms(p);
	log_info("storing again, resuming claims", "held=%zu", p->events.counts[EV_HELD]);
}

/* Something to store, which Postgres says nothing of. */
static bool has_rows(const struct pipeline *p)
{
	bool is_at_work = p->events.counts[EV_STORING] && !store_is_idle(p->first.store);

	return (p->events.counts[EV_BATCHED] || is_at_work) && !store_is_searching(p->first.store);
}

/* Who cannot finish does not begin. */
static void check_stall(struct pipeline *p)
{
	bool is_stalled = stall_check(&p->stall, has_rows(p), now_ms(p)) && !is_draining(p);

	if (is_stalled == is_resting(p))
		return;
	set_life(p, is_stalled ? LIFE_RESTING : LIFE_WORKING);
	p->probed_ms = now_ms(p);
	claim_rest(p->claim, is_stalled);
	if (!is_stalled) {
		stop_resting(p);
		return;
	}
	log_warn("cannot store, leaving claims to other listeners", "reason=%s", store_trouble(p->first.store));
	give_claims_back(p);
}

/* The timer is there for the turn of the loop that follows. */
static void on_watch_timer(uv_timer_t *timer)
{
	struct pipeline *p = timer->data;

	if (is_resting(p))
		give_claims_back(p);
}

bool pipeline_can_store(const struct pipeline *p, const char **why)
{
	if (!store_is_ready(p->first.store, why))
		return false;
	if (is_resting(p))
		*why = *store_trouble(p->first.store) ? store_trouble(p->first.store) : "nothing was stored";
	return !is_resting(p);
}

const char *pipeline_hazards(const struct pipeline *p)
{
	return store_hazards(p->first.store);
}

/* --- receive --- */

static struct event *take_refused(struct pipeline *p, const char *head, size_t len, const struct envelope_view *view,
				  const uint8_t *digest, const char *reason, struct sender *sender)
{
	struct event *ev = event_new(&p->events, EV_REFUSED, head, len, view, sender, now_ms(p) * 1000);

	if (digest)
		event_set_digest(ev, digest);
	event_set_reason(ev, reason);
	counters.received++;
	counters.received_bytes += len;
	check_budget(p);
	return ev;
}

void pipeline_refuse(struct pipeline *p, const char *message, size_t len, const char *reason, struct sender *sender)
{
	take_refused(p, message, len, NULL, NULL, reason, sender);
}

void pipeline_refuse_frame(struct pipeline *p, const char *source, const char *frame, size_t len, const char *reason,
			   struct sender *sender)
{
	take_refused(p, frame, len, NULL, NULL, reason, sender)->source = source;
}

void pipeline_refuse_long(struct pipeline *p, const char *source, const char *head, size_t len, const uint8_t *digest,
			  uint64_t total, struct sender *sender)
{
	char reason[160];

	snprintf(reason, sizeof(reason), "the message has %llu bytes, more than %s allows", (unsigned long long)total,
		 source ? "the profile's max_message_bytes, or --max-message," : "--max-message");
	take_refused(p, head, len, NULL, digest, reason, sender)->source = source;
}

/* Is the message that was read last, or the event, too old to be taken? Asked before it is claimed: a copy that is
 * at work already is not asked again. */
static const char *find_stale(const struct pipeline *p, const struct feed_event *event)
{
	if (!p->stale.max_age_us)
		return NULL;
	if (event)
		return age_limit_reason(&p->feed_stale, event->time, event->unit, clock_us(CLOCK_REALTIME_COARSE));
	return age_limit_reason(&p->stale, envelope_time(p->envelope), p->stale.unit, clock_us(CLOCK_REALTIME_COARSE));
}

static void join(struct pipeline *p, struct event *ev, struct sender *sender)
{
	event_add_copy(&p->events, ev, sender);
	counters.coalesced++;
	duplicates_seen(now_ms(p) - ev->received_us / 1000);
}

/* Other bytes than those of lead, which has the same id and is at work: they wait for how it ends, but not for
 * the backoff of one that was refused or put off. One that is stale may only become a duplicate. */
static void wait_behind(struct pipeline *p, struct event *lead, struct event *ev, const char *stale)
{
	struct event *oldest = event_put_behind(lead, ev, true);

	if (stale)
		event_set_reason(ev, stale);
	if (oldest)
		set_aside(p, oldest, "newer messages with this event_id came before this one could be stored");
	if (event_tries(lead) && (lead->state == EV_BACKING_OFF || lead->state == EV_HELD))
		try_other(p, lead);
	counters.variants++;
	duplicates_seen(now_ms(p) - lead->received_us / 1000);
}

/* What its row is to say of where it came from. */
static void note_origin(struct pipeline *p, struct event *ev, const struct feed_event *event, const char *from)
{
	struct slice time = event ? event->time : envelope_time(p->envelope);

	ev->from = from;
	ev->has_time = time.at && timestamp_parse(time.at, time.len, event ? event->unit : p->time_unit, &ev->time_us);
}

/* Takes a message that was read: by the pointers, or as event by the rules of a profile. */
static void take(struct pipeline *p, const char *message, size_t len, const struct envelope_view *view,
		 const struct feed_event *event, const char *from, struct sender *sender)
{
	struct event *lead = event_find(&p->events, view);
	struct event *ev = event_with_message(lead, message, len, view);
	const char *why;

	if (ev) {
		join(p, ev, sender);
	} else if ((why = find_stale(p, event)) && !lead) {
		counters.stale++;
		take_refused(p, message, len, view, NULL, why, sender);
		return;
	} else {
		ev = event_new(&p->events, lead ? EV_BEHIND : EV_CLAIMING, message, len, view, sender,
			       now_ms(p) * 1000);
		note_origin(p, ev, event, from);
		if (lead)
			wait_behind(p, lead, ev, why);
		else
			claim_or_defer(p, ev, event ? event->is_shared : sender != NULL);
	}
	counters.received++;
	counters.received_bytes += len;
	check_budget(p);
}

bool pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from, struct sender *sender)
{
	struct envelope_view view;
	const char *why = envelope_read(p->envelope, message, len, &view);

	if (why)
		pipeline_refuse(p, message, len, why, sender);
	else
		take(p, message, len, &view, NULL, from, sender);
	return !why;
}

void pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender)
{
	struct envelope_view view = {.id = event->id,
				     .type = event->type,
				     .payload = event->payload.at ? event->payload : (struct slice){"{}", 2},
				     .id_hash = keyed_hash(event->id.at, event->id.len),
				     .source = event->source};

	assert(view.id.len && view.id.len <= ENVELOPE_ID_MAX && view.source);
	take(p, view.payload.at, view.payload.len, &view, event, NULL, sender);
}

/* --- draining --- */

static void release_left(struct pipeline *p)
{
	for (int state = 0; state < EVENT_STATES; state++)
		each_claim(p, (enum event_state)state, NULL, release);
}

static void on_last_answers(uv_timer_t *timer)
{
	struct pipeline *p = timer->data;

	if (p->life == LIFE_DRAINED)
		return;
	set_life(p, LIFE_DRAINED);
	p->on.on_drained(p->on.arg, p->events.messages);
}

/* The releases get a moment to reach Redis; who does not get through has its TTL. */
static void on_drain_timeout(uv_timer_t *timer)
{
	struct pipeline *p = timer->data;

	if (p->life == LIFE_DRAINED)
		return;
	release_left(p);
	uv_timer_start(&p->drain_timer, on_last_answers, 200, 0);
}

/* What waits for others, or for the server, waits no longer. */
static void hurry(struct pipeline *p, enum event_state state)
{
	list_each(node, after, &p->events.lists[state]) {
		struct event *ev = list_entry(node, struct event, link);

		if (state == EV_BACKING_OFF && !ev->is_put_off)
			continue;
		hold_remove(ev);
		send_to_store(p, ev);
	}
}

void pipeline_drain(struct pipeline *p)
{
	set_life(p, LIFE_DRAINING);
	claim_leave(p->claim);
	hurry(p, EV_HELD);
	hurry(p, EV_BACKING_OFF);
	uv_timer_start(&p->drain_timer, on_drain_timeout, (uint64_t)p->config->drain_timeout_ms, 0);
}

/* --- life --- */

static int64_t sooner(int64_t wait, int64_t other)
{
	return wait < 0 || (other >= 0 && other < wait) ? other : wait;
}

/* Milliseconds until the store is to be given what it could be given already; -1: there is nothing. */
static int64_t turns_wait(struct pipeline *p)
{
	int64_t ask = turns_ask_wait(&p->turns, others(p), p->in_turn >= TURN_WINDOW / 4, now_ms(p));
	int64_t wait = sooner(ask, p->events.counts[EV_BATCHED] ? store_wait(p) : -1);

	if (!is_draining(p))
		wait = sooner(wait, members_wait(&p->members, now_ms(p)));
	return store_is_idle(p->first.store) ? wait : -1;
}

static void on_second_closed(void *arg);

/* The second connection is not kept where it is of no use: others may need its place. Above all the first one does,
 * where a role may have one connection only. */
static void check_second(struct pipeline *p)
{
	struct writer *w = &p->second;
	bool is_unused = now_ms(p) - w->sent_ms >= UNUSED_MS || RARE("pipeline: the second connection is not used");

	if (!w->store || w->is_closing || (p->first.epoch && !(is_unused && (!w->epoch || store_is_idle(w->store)))))
		return;
	if (p->first.epoch && !w->epoch)
		p->second_from_ms = now_ms(p) + USELESS_MS;
	p->behind = 0;
	store_give_up(w->store);
	w->is_closing = true;
	store_close(w->store, on_second_closed, p);
}

static void on_turn(uv_prepare_t *turn)
{
	struct pipeline *p = turn->data;
	int64_t wait;

	check_stall(p);
	if (is_resting(p))
		probe(p);
	check_turns(p);
	check_second(p);
	store_next(p);
	check_budget(p);
	check_drained(p);
	wait = sooner(hold_wait(&p->hold, now_ms(p)), turns_wait(p));
	if (wait < 0)
		uv_timer_stop(&p->hold_timer);
	else
		uv_timer_start(&p->hold_timer, on_hold_timer, (uint64_t)wait, 0);
}

static void on_foreign(void *arg, const char *sentence)
{
	struct pipeline *p = arg;

	p->on.on_unusable(p->on.arg, sentence, 2);
}

static void on_database(void *arg, const char *id)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;

	if (w == &p->second)
		return;
	claim_set_database(p->claim, id);
	members_set_database(&p->members, id);
}

/* What was durable in another epoch may not be any more. */
static void on_epoch(void *arg, uint32_t epoch)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;
	bool is_other = epoch && p->epoch && epoch != p->epoch;

	w->epoch = epoch;
	if (w == &p->second) {
		if (!epoch)
			store_give_up(w->store); /* the first one need not wait for its server */
		return;
	}
	claim_set_epoch(p->claim, epoch);
	if (epoch)
		p->epoch = epoch;
	if (!is_other)
		return;
	cursors_clear(&p->cursors);
	if (p->on_forgotten)
		p->on_forgotten(p->on_forgotten_arg);
}

static void on_posted(void *arg)
{
	struct pipeline *p = pipeline_of(arg);

	p->on.on_posted(p->on.arg);
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;

	if (w == &p->second) { /* the first one finds out if it is so for long */
		log_warn("cannot use a second connection to postgres", "reason=%s", sentence);
		w->epoch = 0; /* so that it is closed */
		return;
	}
	p->on.on_unusable(p->on.arg, sentence, status);
}

const struct events *pipeline_events(const struct pipeline *p)
{
	return &p->events;
}

bool pipeline_is_full(const struct pipeline *p)
{
	return p->all.is_full;
}

bool pipeline_is_full_for_producers(const struct pipeline *p)
{
	return p->producers.is_full;
}

const struct claim *pipeline_claim(const struct pipeline *p)
{
	return p->claim;
}

static void start_timers(struct pipeline *p)
{
	uint64_t renew_ms = (uint64_t)(ttl_ms(p) / 9);

	uv_prepare_init(p->loop, &p->turn);
	uv_timer_init(p->loop, &p->hold_timer);
	uv_timer_init(p->loop, &p->renew_timer);
	uv_timer_init(p->loop, &p->drain_timer);
	uv_timer_init(p->loop, &p->checkin_timer);
	uv_timer_init(p->loop, &p->burial_timer);
	p->turn.data = p->hold_timer.data = p->renew_timer.data = p->drain_timer.data = p->checkin_timer.data = p;
	p->burial_timer.data = p;
	uv_timer_init(p->loop, &p->watch_timer);
	p->watch_timer.data = p;
	uv_prepare_start(&p->turn, on_turn);
	uv_timer_start(&p->renew_timer, on_renew_timer, renew_ms, renew_ms);
	uv_timer_start(&p->checkin_timer, on_checkin_timer, CHECKIN_PERIOD_MS, CHECKIN_PERIOD_MS);
	uv_timer_start(&p->watch_timer, on_watch_timer, WATCH_MS, WATCH_MS);
}

static void open_writer(struct pipeline *p, struct writer *w)
{
	const struct store_callbacks on = {on_idle,        on_stored,   on_buried, on_checked_in, on_cursors_put,
					   on_cursor_read, on_newest,   on_member, on_database,   on_epoch,
					   on_posted,      on_unusable, w};

	w->pipeline = p;
	w->sent_ms = now_ms(p);
	for (int i = 0; i < 2; i++)
		batch_init(&w->batches[i], (size_t)p->config->batch_max, BATCH_BYTES);
	w->store = store_open(p->loop, p->config, &on);
}

static void close_writer(struct writer *w)
{
	batch_free(&w->batches[0]);
	batch_free(&w->batches[1]);
}

static void open_stages(struct pipeline *p)
{
	const struct claim_callbacks claim_on = {on_claimed, on_looked, on_counted, on_owner_gone, on_foreign, p};
	const struct config *c = p->config;

	age_limit_init(&p->stale, c);
	age_limit_init_feeds(&p->feed_stale, c);
	checkin_init(&p->checkin, c);
	p->telling = TELLING_DUE;
	p->envelope = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer);
	if (c->time_pointer) {
		p->time_unit = timestamp_unit_named(c->time_unit);
		envelope_add_time(p->envelope, c->time_pointer);
		if (!c->max_age_s)
			envelope_forgive_time(p->envelope);
	}
	p->claim = claim_open(p->loop, c, &claim_on);
	members_init(&p->members, c, claim_owner(p->claim));
	open_writer(p, &p->first);
}

void pipeline_doubt_marks(struct pipeline *p)
{
	p->doubts_marks = true;
}

struct pipeline *pipeline_open(uv_loop_t *loop, const struct config *config, const struct pipeline_callbacks *callbacks)
{
	struct pipeline *p = memory_calloc(1, sizeof(*p));

	p->loop = loop;
	p->config = config;
	p->all.eighths = WHOLE;
	p->producers.eighths = config->sources.count ? OF_PRODUCERS : WHOLE;
	p->on = *callbacks;
	events_init(&p->events);
	hold_init(&p->hold);
	turns_init(&p->turns);
	open_stages(p);
	start_timers(p);
	return p;
}

static void on_part_closed(void *arg)
{
	struct pipeline *p = arg;

	void (*done)(void *done_arg) = p->done;
	void *done_arg = p->done_arg;

	if (--p->open)
		return;
	events_clear(&p->events);
	envelope_free(p->envelope);
	cursors_clear(&p->cursors);
	close_writer(&p->first);
	free(p);
	done(done_arg);
}

static void on_second_closed(void *arg)
{
	struct pipeline *p = arg;

	close_writer(&p->second);
	p->second = (struct writer){0};
	if (p->open)
		on_part_closed(p);
}

static void on_handle_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

/* The store goes first: nothing may settle any more when the claims go. */
void pipeline_close(struct pipeline *p, void (*done)(void *arg), void *arg)
{
	uv_handle_t *handles[] = {(uv_handle_t *)&p->turn,          (uv_handle_t *)&p->hold_timer,
				  (uv_handle_t *)&p->renew_timer,   (uv_handle_t *)&p->drain_timer,
				  (uv_handle_t *)&p->checkin_timer, (uv_handle_t *)&p->burial_timer,
				  (uv_handle_t *)&p->watch_timer};

	p->open = 9 + (p->second.store != NULL);
	p->done = done;
	p->done_arg = arg;
	store_close(p->first.store, on_part_closed, p);
	if (p->second.store && !p->second.is_closing)
		store_close(p->second.store, on_second_closed, p);
	claim_close(p->claim, on_part_closed, p);
	for (int i = 0; i < 7; i++)
		uv_close(handles[i], on_handle_closed);
}
