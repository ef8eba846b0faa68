/* storing.c feeds the two connections to the store: batches, check-ins and cursors. pipeline.c decides what follows for
 * an event. */
#include "store/storing.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/ending.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/batch.h"
#include "store/checkin.h"
#include "event/line_minutes.h"
#include "store/pace.h"
#include "store/stall.h"

#define SUSPECTS_MAX        8     /* per statement: events that have failed before */
#define BEHIND_BATCHES      4     /* consecutive full batches before a second connection is opened */
#define UNUSED_MS           10000 /* idle time after which the second connection is closed */
#define USELESS_MS          60000 /* time before it is opened again if it could not connect */
#define DEAD_LETTER_BATCHES 4     /* batches of events between two small batches of dead letters */
#define DEAD_LETTER_WAIT_MS 1000  /* wait after dead letters could not be written */
#define CURSORS_TOLD        3     /* failures in a row, one a second */
#define LEAVE_MS            1000  /* time for the last check-in */
#define ASK_MS              2000  /* an idle store is asked this often, so that the listener knows if it answers */
#define AHEAD_EVENTS        32768 /* waiting events at which feeds are not read, if the oldest waits less than this: */
#define AHEAD_MS            2000
#define SLOW_MS             1000  /* the store is slow if the oldest row waits this long behind a full batch */
#define SLOW_AGAIN_MS       60000 /* time between two log lines about that */
#define SLOW_OVER_MS        10000 /* it is fast enough again after this long, so that bursts are one spell */

/* The check-in: sent once a minute, and once more at the end. */
enum telling {
	TELLING_TOLD, /* the timer starts the next one */
	TELLING_DUE,
	TELLING_SENT,      /* sent, without an answer */
	TELLING_LAST_SENT, /* the last check-in was sent */
	TELLING_OVER,      /* the last one arrived or was given up */
};

/* One of two stores, each with its own connection and current batch. */
struct writer {
	struct storing *storing;
	struct store *store;     /* NULL: not needed yet */
	struct batch batches[2]; /* used in turn */
	struct batch *batch;     /* the one in the store, or empty; the other is being reported, or empty */
	int64_t sent_ms;         /* loop clock: last batch of events, or when it was opened */
	uint32_t epoch;          /* epoch of its database; 0: unknown or not connected */
	bool is_closing;
};

/* A period in which rows arrive faster than the store takes them. */
struct slowness {
	int64_t since_ms; /* loop clock: start; before, the store was fast enough */
	int64_t told_ms;  /* last log line; 0: not slow, or only just */
	int64_t last_ms;  /* when it was last slow */
	uint64_t stored;  /* counters.persisted at the last log line */
};

struct storing {
	uv_loop_t *loop;
	const struct config *config;
	struct events *events;
	struct storing_callbacks on;
	struct writer first;    /* does everything */
	struct writer second;   /* helps with events only */
	unsigned int behind;    /* consecutive batches behind which another full one waited */
	int64_t second_from_ms; /* loop clock: after a failure, do not open the second one before this */
	struct pace pace;
	struct stall stall;
	struct slowness slow;
	bool is_ahead; /* feeds are not read */
	struct checkin checkin;
	enum telling telling;
	int64_t checkin_ms; /* loop clock: a check-in is due, or the pending one is given up */
	struct cursors cursors;
	struct {
		const char *const *sources;
		size_t count;
		storing_cursor_cb *cb; /* NULL: no query for cursors */
		void *arg;
	} reading;
	uint32_t epoch;                  /* last epoch that was reported; 0: none */
	void (*on_forgotten)(void *arg); /* NULL: no callback */
	void *on_forgotten_arg;
	bool had_suspects;              /* the last batch of events had some that failed before */
	unsigned int since_dead_letter; /* batches of events since the last batch of dead letters */
	int64_t asked_ms;               /* loop clock: the last question of an idle store */
	int64_t dead_letter_ms;         /* loop clock: retry dead letters that could not be written */
	bool wants_epoch;               /* a mark may need the epoch soon */
	bool is_draining;
	struct ending ending; /* its parts are stores */
};

static void open_writer(struct storing *s, struct writer *w);
static void check_second(struct storing *s);

/* The arg of a store's callbacks is its writer. */
static struct storing *storing_of(void *writer)
{
	return ((struct writer *)writer)->storing;
}

static int64_t now_ms(const struct storing *s)
{
	return (int64_t)uv_now(s->loop);
}

static const char *const telling_names[] = {"told", "due", "sent", "last sent", "over"};

/* --- check-ins --- */

static void set_telling(struct storing *s, enum telling telling)
{
	log_debug("check-in", "from=%s to=%s", telling_names[s->telling], telling_names[telling]);
	assert(s->telling < TELLING_LAST_SENT || telling == TELLING_OVER);
	s->telling = telling;
}

/* Makes a check-in due, or gives up one without an answer. */
static void on_checkin_due(struct storing *s)
{
	set_telling(s, s->telling < TELLING_LAST_SENT ? TELLING_DUE : TELLING_OVER);
	s->checkin_ms = now_ms(s) + checkin_wait_ms(&s->checkin);
}

/* Notes copies whose events are not stored: they may be missing from the minutes that are reported. */
static void note_waiting(const struct storing *s)
{
	list_each(node, after, &s->events->ordered) {
		const struct event *ev = list_entry(node, struct event, order_link);
		int64_t came_ms = ev->came_us / 1000;

		line_minutes_await(&line_minutes, event_origin(ev), ev->lines, came_ms);
		line_minutes_await(&line_minutes, ev->also, ev->also_lines, came_ms + ev->also_ms);
	}
}

/* A batch has to wait for it, but it takes a millisecond once a minute. */
static void send_checkin(struct storing *s, bool is_last)
{
	bool is_sent;
	char *text;

	note_waiting(s);
	text = checkin_write(&s->checkin, is_last, now_ms(s));
	is_sent = store_checkin(s->first.store, text) == 0;
	if (!is_sent)
		line_minutes_told(&line_minutes, false);

	if (is_last)
		set_telling(s, is_sent ? TELLING_LAST_SENT : TELLING_OVER);
	else if (is_sent)
		set_telling(s, TELLING_SENT);
	free(text);
}

static void on_lines(void *arg, const char *rows, size_t len)
{
	line_counts_take(&line_minutes, &storing_of(arg)->checkin.lines, rows, len);
}

static void on_checked_in(void *arg, bool is_told, const char *answer)
{
	struct storing *s = storing_of(arg);
	const char *why = is_told ? checkin_read(&s->checkin, answer) : NULL;

	line_minutes_told(&line_minutes, is_told);
	line_counts_told(&s->checkin.lines, is_told);
	if (s->telling == TELLING_LAST_SENT)
		set_telling(s, TELLING_OVER);
	else if (s->telling == TELLING_SENT)
		set_telling(s, TELLING_TOLD);
	if (why && !s->is_draining)
		s->on.on_unusable(s->on.arg, why, 1);
}

static void on_pause(void *arg)
{
	struct storing *s = storing_of(arg);

	if (arg == &s->first && s->telling == TELLING_DUE)
		send_checkin(s, false);
}

void storing_on_checkin(struct storing *s, json_t *(*describe)(void *arg), void *arg)
{
	s->checkin.describe = describe;
	s->checkin.arg = arg;
}

bool storing_has_checked_in(const struct storing *s)
{
	return s->telling == TELLING_TOLD;
}

void storing_hasten_checkin(struct storing *s)
{
	if (s->telling == TELLING_TOLD || s->telling == TELLING_SENT) /* what is sent may be out of date */
		set_telling(s, TELLING_DUE);
}

/* --- cursors --- */

void storing_put_cursor(struct storing *s, const struct cursor *cursor)
{
	cursors_put(&s->cursors, cursor);
}

void storing_read_cursors(struct storing *s, const char *const *sources, size_t n, storing_cursor_cb *cb, void *arg)
{
	assert(!s->reading.cb);
	s->reading.sources = sources;
	s->reading.count = n;
	s->reading.cb = cb;
	s->reading.arg = arg;
}

void storing_on_forgotten(struct storing *s, void (*fn)(void *arg), void *arg)
{
	s->on_forgotten = fn;
	s->on_forgotten_arg = arg;
}

void storing_forget_cursors(struct storing *s)
{
	cursors_clear(&s->cursors);
	if (s->on_forgotten)
		s->on_forgotten(s->on_forgotten_arg);
}

/* Events that exist only on disk are already answered. The stored cursor must not pass them: if the disk is lost, the
 * feed must send them again. */
static bool is_cursor_due(const struct storing *s, bool is_end)
{
	return !s->events->away && !s->events->back && cursors_are_due(&s->cursors, is_end, now_ms(s));
}

static void send_cursors(struct storing *s)
{
	cursors_send(&s->cursors, now_ms(s));
	if (store_put_cursors(s->first.store, &s->cursors, s->epoch))
		cursors_answer(&s->cursors, false);
}

static void on_cursors_put(void *arg, bool is_stored)
{
	struct storing *s = storing_of(arg);

	cursors_answer(&s->cursors, is_stored);
}

/* After a failure, reads the cursors again. */
static void on_cursor_read(void *arg, const struct cursor *cursor, bool is_read)
{
	struct storing *s = storing_of(arg);
	storing_cursor_cb *cb = s->reading.cb;

	if (!cursor && !is_read)
		return;
	if (!cursor)
		s->reading.cb = NULL;
	cb(s->reading.arg, cursor);
}

/* --- the end --- */

bool storing_is_over(struct storing *s)
{
	const struct store_view v = store_view(s->first.store);

	if (v.is_idle && is_cursor_due(s, true))
		send_cursors(s);
	if (cursors_are_sent(&s->cursors))
		return false;
	if (s->telling < TELLING_LAST_SENT && v.is_idle) {
		send_checkin(s, true);
		s->checkin_ms = now_ms(s) + LEAVE_MS;
	}
	/* The last check-in waits for the answer to another statement, unless that is late. */
	return s->telling < TELLING_SENT ? v.is_stalled || !v.is_ready : s->telling == TELLING_OVER;
}

/* --- batch and store --- */

/* Begins a batch in the other buffer: events of the last batch may not have been reported yet. */
static void begin_batch(struct writer *w)
{
	w->batch = &w->batches[w->batch == w->batches];
	batch_clear(w->batch);
}

static void dead_letter_next(struct storing *s)
{
	struct writer *w = &s->first;

	begin_batch(w);
	list_each(node, after, &s->events->lists[EV_REFUSED]) {
		struct event *ev = list_entry(node, struct event, link);

		if (!batch_add(w->batch, ev))
			break;
		event_move(s->events, ev, EV_DEAD_LETTERING);
	}
	store_dead_letter(w->store, w->batch);
}

/* Returns the time of the oldest event that --max-age allows, in us since 1970. */
static int64_t oldest_time(const struct config *c)
{
	return c->max_age_s ? clock_us(CLOCK_REALTIME_COARSE) - c->max_age_s * 1000000 : INT64_MIN;
}

/* A dead letter must not stand beside a row that another transaction may still commit. */
static bool is_stale(const struct event *ev, int64_t oldest_us)
{
	return oldest_us != INT64_MIN && ev->has_time && ev->time_us < oldest_us && !ev->may_have_row;
}

static size_t rows_most(const struct storing *s)
{
	size_t most = store_view(s->first.store).rows_most;

	return most ? most : (size_t)s->config->batch_max;
}

/* Also stops after a batch of stale events: after an outage there may be many. */
static void fill_batch(struct writer *w, bool has_suspects)
{
	struct storing *s = w->storing;
	struct batch *b = w->batch;
	int64_t oldest_us = oldest_time(s->config);
	size_t stale = 0, most = rows_most(s);

	list_each(node, after, &s->events->lists[EV_BATCHED]) {
		struct event *ev = list_entry(node, struct event, link);

		if (event_has_failed(ev) != has_suspects || (w == &s->second && ev->is_handed))
			continue;
		if (is_stale(ev, oldest_us)) {
			s->on.on_stale(s->on.arg, ev);
			if (++stale == b->max_count)
				return;
			continue;
		}
		if (b->count >= (has_suspects ? SUSPECTS_MAX : most) || !batch_add(b, ev))
			return;
		event_move(s->events, ev, EV_STORING);
	}
}

/* --- what is stored next --- */

/* Few large statements cost less than many small ones. */
static int64_t rows_due(struct storing *s)
{
	size_t rows = s->events->counts[EV_BATCHED];

	if (s->is_draining || rows >= (size_t)s->config->batch_max)
		return 0;
	return pace_wait(&s->pace, rows, now_ms(s));
}

static void insert_batch(struct writer *w)
{
	struct storing *s = w->storing;

	w->sent_ms = now_ms(s);
	store_insert(w->store, w->batch);
	pace_sent(&s->pace, w->batch->count, now_ms(s));
}

/* True if enough rows wait to fill a batch. */
static bool is_behind(const struct storing *s)
{
	return s->events->counts[EV_BATCHED] >= rows_most(s) || s->events->message_bytes[EV_BATCHED] >= BATCH_BYTES;
}

/* Events that failed before take turns with the others, a few at a time: each may wait for a lock again. */
static void insert_next(struct storing *s)
{
	const struct event *first = list_entry(s->events->lists[EV_BATCHED].next, struct event, link);
	bool has_suspects = event_has_failed(first) && !s->had_suspects;
	struct batch *b;

	begin_batch(&s->first);
	b = s->first.batch;
	fill_batch(&s->first, has_suspects);
	if (!b->count)
		fill_batch(&s->first, !has_suspects);
	if (!b->count) /* all were stale */
		return;
	s->had_suspects = event_has_failed(b->events[0]);
	s->behind = is_behind(s) ? s->behind + 1 : 0;
	insert_batch(&s->first);
}

/* Dead letters and events take turns. But even a statement with few rows takes time, above all if Postgres is far away
 * or busy, so a client that sends garbage must not cause every second one. */
static bool is_dead_letter_due(const struct storing *s)
{
	size_t refused = s->events->counts[EV_REFUSED], batched = s->events->counts[EV_BATCHED];

	if (now_ms(s) < s->dead_letter_ms)
		return false;
	return refused && (!batched || s->since_dead_letter >= (refused < batched ? DEAD_LETTER_BATCHES : 1));
}

/* One backend of Postgres uses one core, and is idle during its commit and until the next batch arrives. If rows arrive
 * faster than it stores them, a second backend stores every other batch. It is not used while the first one is stalled.
 * */
static void store_beside(struct storing *s)
{
	struct writer *w = &s->second;
	bool is_alone = FAULT_POINT("pipeline: a second connection");

	if (s->config->postgres_connections < 2 || !s->first.epoch || config_store_path(s->config) ||
	    store_view(s->first.store).is_idle || store_view(s->first.store).is_stalled)
		return;
	if (!w->store && now_ms(s) >= s->second_from_ms && (s->behind >= BEHIND_BATCHES || is_alone)) {
		log_info("rows come faster than one connection stores them, opening a second one", "rows=%zu",
			 s->events->counts[EV_BATCHED]);
		open_writer(s, w);
	}
	if (!w->store || w->is_closing || !store_view(w->store).is_idle || !w->epoch || w->epoch != s->epoch ||
	    !(is_behind(s) || is_alone))
		return;
	begin_batch(w);
	fill_batch(w, false);
	if (w->batch->count)
		insert_batch(w);
}

/* While one batch is in flight the next one fills. If many events arrive, pace.c makes it wait a little longer. */
static void store_first(struct storing *s)
{
	if (!store_view(s->first.store).is_idle)
		return;
	if (s->telling == TELLING_DUE || (s->telling == TELLING_TOLD && FAULT_POINT("pipeline: a check-in is due"))) {
		send_checkin(s, false);
		return;
	}
	if (s->reading.cb) {
		store_read_cursors(s->first.store, s->reading.sources, s->reading.count);
		return;
	}
	if (is_cursor_due(s, s->is_draining)) {
		send_cursors(s);
		return;
	}
	if (is_dead_letter_due(s)) {
		s->since_dead_letter = 0;
		dead_letter_next(s);
	} else if (s->events->counts[EV_BATCHED] && rows_due(s) == 0) {
		s->since_dead_letter++;
		insert_next(s);
	} else if ((s->wants_epoch || now_ms(s) - s->asked_ms >= ASK_MS) && !store_is_sure(s->first.store)) {
		s->asked_ms = now_ms(s);
		store_ask_epoch(s->first.store);
	}
}

static void store_next(struct storing *s)
{
	store_first(s);
	store_beside(s);
}

void storing_next(struct storing *s, bool wants_epoch)
{
	if (now_ms(s) >= s->checkin_ms)
		on_checkin_due(s);
	check_second(s);
	s->wants_epoch = wants_epoch;
	store_next(s);
}

int64_t storing_wait(struct storing *s)
{
	int64_t now = now_ms(s), due_ms = s->checkin_ms;

	if (s->events->counts[EV_BATCHED] && store_view(s->first.store).is_idle && now + rows_due(s) < due_ms)
		due_ms = now + rows_due(s);
	if (s->dead_letter_ms > now && s->dead_letter_ms < due_ms)
		due_ms = s->dead_letter_ms;
	return due_ms > now ? due_ms - now : 0;
}

/* --- a slow store --- */

static int64_t oldest_of(const struct storing *s, enum event_state state)
{
	const struct list *all = &s->events->lists[state];

	return list_is_empty(all) ? INT64_MAX : list_entry(all->next, struct event, link)->received_us / 1000;
}

/* Returns how long the oldest row has waited, in ms, and sets n to the number of rows. */
static int64_t rows_wait(const struct storing *s, size_t *n)
{
	int64_t batched = oldest_of(s, EV_BATCHED), storing = oldest_of(s, EV_STORING);

	*n = s->events->counts[EV_BATCHED] + s->events->counts[EV_STORING];
	return *n ? now_ms(s) - (batched < storing ? batched : storing) : 0;
}

int64_t storing_is_slow(const struct storing *s, const char **why)
{
	static char sentence[120];
	size_t rows;
	int64_t ms = rows_wait(s, &rows);

	*why = "";
	if (!s->slow.told_ms || ms < SLOW_MS)
		return 0;
	snprintf(sentence, sizeof(sentence), "%s is slow: %zu events wait, the oldest for %lld s",
		 config_store_path(s->config) ? "sqlite" : "postgres", rows, (long long)ms / 1000);
	*why = sentence;
	return ms;
}

static void tell_slowness(struct storing *s, size_t rows, int64_t ms)
{
	s->slow.last_ms = now_ms(s);
	if (now_ms(s) < (s->slow.told_ms ? s->slow.told_ms + SLOW_AGAIN_MS : s->slow.since_ms + SLOW_MS))
		return;
	log_warn("the store is slow, events wait", "events=%zu oldest_s=%lld stored=%llu", rows, (long long)ms / 1000,
		 (unsigned long long)(counters.persisted - s->slow.stored));
	s->slow.told_ms = now_ms(s);
	s->slow.stored = counters.persisted;
}

static void end_slowness(struct storing *s)
{
	if (s->slow.told_ms && now_ms(s) - s->slow.last_ms < SLOW_OVER_MS)
		return;
	if (s->slow.told_ms)
		log_info("the store is fast enough again", "after_s=%lld",
			 (long long)(s->slow.last_ms - s->slow.since_ms) / 1000);
	s->slow = (struct slowness){.since_ms = now_ms(s), .stored = counters.persisted};
}

/* Memory that is touched for the first time costs more than the rest of a listener's work. */
bool storing_is_far_ahead(struct storing *s)
{
	const size_t *counts = s->events->counts;
	size_t events = counts[EV_CLAIMING] + counts[EV_BATCHED] + counts[EV_STORING], rows;

	s->is_ahead = events >= (s->is_ahead ? AHEAD_EVENTS / 2 : AHEAD_EVENTS) && rows_wait(s, &rows) < AHEAD_MS &&
		      now_ms(s) - oldest_of(s, EV_CLAIMING) < AHEAD_MS;
	return s->is_ahead;
}

/* Says nothing while the store cannot be used: that has its own log lines. */
void storing_check_slowness(struct storing *s)
{
	size_t rows;
	int64_t ms = rows_wait(s, &rows);

	if (*storing_trouble(s))
		return;
	if (ms < SLOW_MS || !(is_behind(s) || s->slow.told_ms))
		end_slowness(s);
	else
		tell_slowness(s, rows, ms);
}

static void on_idle(void *arg)
{
	struct writer *w = arg;
	struct storing *s = w->storing;

	stall_took(&s->stall, now_ms(s) - w->sent_ms);
	store_next(s);
}

/* Tells stall.c the result. An event that is postponed again says nothing about others. */
static void note_result(struct storing *s, const struct event *ev, enum store_result result)
{
	if (result != STORE_LATER && result != STORE_BLOCKED)
		stall_stored(&s->stall);
	else if (!ev->put_offs && result == STORE_BLOCKED)
		stall_blocked(&s->stall);
	else if (!ev->put_offs)
		stall_failed(&s->stall);
}

/* The first connection judges what the second one could not store, because it knows whether others are stored. It also
 * decides about rows stored in a server that the first one has left, or has not found yet. */
static bool hand_to_first(const struct writer *w, struct event *ev, enum store_result result)
{
	bool is_stored = result == STORE_INSERTED || result == STORE_PRESENT;

	if (w != &w->storing->second || (is_stored && w->epoch == w->storing->epoch))
		return false;
	ev->is_handed = true;
	ev->may_have_row |= is_stored;
	event_send(w->storing->events, ev);
	return true;
}

static void on_stored(void *arg, struct event *ev, enum store_result result, const char *why)
{
	struct writer *w = arg;
	struct storing *s = w->storing;

	ev->may_have_row |= result == STORE_BLOCKED || result == STORE_UNKNOWN;
	if (hand_to_first(w, ev, result) || result == STORE_UNKNOWN)
		return;
	note_result(s, ev, result);
	s->on.on_stored(s->on.arg, ev, result, why);
}

/* Dead letters that cannot be written wait beside the events. */
static void on_dead_lettered(void *arg, struct event *ev, enum store_dead_letter dead_letter)
{
	struct storing *s = storing_of(arg);

	if (dead_letter == STORE_NOT_DEAD_LETTERED) {
		event_move(s->events, ev, EV_REFUSED);
		s->dead_letter_ms = now_ms(s) + DEAD_LETTER_WAIT_MS;
		return;
	}
	stall_stored(&s->stall);
	s->on.on_dead_lettered(s->on.arg, ev, dead_letter);
}

const char *storing_kept(const struct storing *s)
{
	if (now_ms(s) < s->dead_letter_ms + DEAD_LETTER_WAIT_MS &&
	    s->events->counts[EV_REFUSED] + s->events->counts[EV_DEAD_LETTERING])
		return "dead letters cannot be written; the log says why";
	return s->cursors.failures >= CURSORS_TOLD && !s->events->away && !s->events->back
		       ? "cursors cannot be stored; the log says why"
		       : "";
}

/* --- the two connections --- */

static void on_posted(void *arg)
{
	struct storing *s = storing_of(arg);

	s->on.on_posted(s->on.arg);
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	struct writer *w = arg;
	struct storing *s = w->storing;

	if (w == &s->second) { /* if this lasts, the first one reports it; a newer schema (1) prevents nothing */
		if (status != 1)
			log_warn("cannot use a second connection to postgres", "reason=%s", sentence);
		w->epoch = 0; /* so that it is closed */
		return;
	}
	s->on.on_unusable(s->on.arg, sentence, status);
}

static void on_database(void *arg, const char *id)
{
	struct writer *w = arg;
	struct storing *s = w->storing;

	if (w == &s->second)
		return;
	s->on.on_database(s->on.arg, id);
}

/* After a change of the epoch, events that were durable may be lost. */
static void on_epoch(void *arg, uint32_t epoch)
{
	struct writer *w = arg;
	struct storing *s = w->storing;
	bool is_other = epoch && s->epoch && epoch != s->epoch;

	w->epoch = epoch;
	if (w == &s->second) {
		if (!epoch)
			store_give_up(w->store); /* its server may not return: do not wait for it */
		return;
	}
	s->on.on_epoch(s->on.arg, epoch);
	if (epoch)
		s->epoch = epoch;
	if (!is_other)
		return;
	line_minutes_doubt_all(&line_minutes);
	storing_forget_cursors(s);
}

static void open_writer(struct storing *s, struct writer *w)
{
	const struct store_callbacks on = {
		.on_idle = on_idle,
		.on_pause = on_pause,
		.on_stored = on_stored,
		.on_dead_lettered = on_dead_lettered,
		.on_lines = on_lines,
		.on_checked_in = on_checked_in,
		.on_cursors_put = on_cursors_put,
		.on_cursor_read = on_cursor_read,
		.on_database = on_database,
		.on_epoch = on_epoch,
		.on_posted = on_posted,
		.on_unusable = on_unusable,
		.arg = w,
	};

	w->storing = s;
	w->sent_ms = now_ms(s);
	for (int i = 0; i < 2; i++)
		batch_init(&w->batches[i], (size_t)s->config->batch_max, BATCH_BYTES);
	w->store = store_open(s->loop, s->config, &on);
}

static void close_writer(struct writer *w)
{
	batch_free(&w->batches[0]);
	batch_free(&w->batches[1]);
}

static void release(void *object)
{
	struct storing *s = object;

	close_writer(&s->first);
	cursors_clear(&s->cursors);
	free(s);
}

static void on_second_closed(void *arg)
{
	struct storing *s = arg;

	close_writer(&s->second);
	s->second = (struct writer){0};
	if (s->ending.parts)
		ending_part(&s->ending);
}

/* Closes the second connection if it is useless: others may need its place, above all the first one if a role may have
 * only one connection. */
static void check_second(struct storing *s)
{
	struct writer *w = &s->second;
	bool is_unused =
		now_ms(s) - w->sent_ms >= UNUSED_MS || FAULT_POINT("pipeline: the second connection is not used");

	if (!w->store || w->is_closing ||
	    (s->first.epoch && !(is_unused && (!w->epoch || store_view(w->store).is_idle))))
		return;
	if (s->first.epoch && !w->epoch)
		s->second_from_ms = now_ms(s) + USELESS_MS;
	s->behind = 0;
	store_give_up(w->store);
	w->is_closing = true;
	store_close(w->store, on_second_closed, s);
}

/* --- what the pipeline asks for --- */

void storing_await(struct storing *s)
{
	pace_await(&s->pace, now_ms(s));
}

const struct store *storing_store(const struct storing *s)
{
	return s->first.store;
}

bool storing_is_sent(const struct storing *s)
{
	return store_view(s->first.store).is_sent || (s->second.store && store_view(s->second.store).is_sent);
}

bool storing_is_unable(struct storing *s)
{
	const struct store_view v = store_view(s->first.store);
	bool has_rows = s->events->counts[EV_BATCHED] || (s->events->counts[EV_STORING] && !v.is_idle);
	bool is_search = v.is_searching; /* a search for blocked rows is not a stall */

	return stall_check(&s->stall, has_rows && !is_search, v.is_ready && v.is_stalled && !is_search, now_ms(s));
}

void storing_forget_stall(struct storing *s)
{
	stall_stored(&s->stall);
}

const char *storing_trouble(const struct storing *s)
{
	const struct store_view v = store_view(s->first.store);

	if (v.is_ready && !s->stall.is_stalled)
		return "";
	if (v.is_ready)
		return *v.trouble ? v.trouble : "nothing was stored";
	return *v.why ? v.why : "connecting";
}

/* --- life --- */

struct storing *storing_open(uv_loop_t *loop, const struct config *config, struct events *events,
			     const struct storing_callbacks *callbacks)
{
	struct storing *s = memory_calloc(1, sizeof(*s));

	s->loop = loop;
	s->config = config;
	s->events = events;
	s->on = *callbacks;
	checkin_init(&s->checkin, config);
	s->telling = TELLING_DUE;
	s->asked_ms = now_ms(s);
	s->checkin_ms = s->asked_ms + CHECKIN_PERIOD_MS;
	open_writer(s, &s->first);
	return s;
}

void storing_drain(struct storing *s)
{
	s->is_draining = true;
}

void storing_close(struct storing *s, void (*done)(void *arg), void *arg)
{
	ending_begin(&s->ending, 1 + (s->second.store != NULL), release, s, done, arg);
	store_close(s->first.store, ending_part, &s->ending);
	if (s->second.store && !s->second.is_closing)
		store_close(s->second.store, on_second_closed, s);
}
