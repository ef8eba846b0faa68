/* pipeline_store.c owns what the store is given next, and what follows from its answers: for events and dead letters,
 * and for what else it is asked and told (check-ins, cursors). A second connection helps with
 * events where one backend of Postgres is not enough. */
#include <assert.h>
#include <stdlib.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/fault_point.h"
#include "road/duplicates.h"
#include "road/line_minutes.h"
#include "road/pipeline_inside.h"

#define PUT_OFF_STEP        8 /* and the longest wait of an event that the store puts off: 12.8 s */
#define RETRY_STEP          2 /* hold step of the first backoff: 50 ms * 2^2 = 200 ms */
#define SUSPECTS_MAX        8 /* events that failed before in one statement */
#define BEHIND_BATCHES      4 /* batches in a row behind which another one waits, before a connection more is opened */
#define UNUSED_MS           10000 /* after which that is closed, */
#define USELESS_MS          60000 /* and not opened again for so long, if it had no connection */
#define DEAD_LETTER_BATCHES 4     /* batches of events between two of few dead letters */
#define DEAD_LETTER_WAIT_MS 1000  /* after dead letters that could not be written */
#define LEAVE_MS            1000  /* for the last check-in */
#define SLOW_MS             1000  /* that the oldest row waits, for as long, behind a full batch: the store is slow */
#define SLOW_AGAIN_MS       60000 /* between two lines about that */

static const char *const telling_names[] = {"told", "due", "sent", "last sent", "over"};

/* --- check-ins --- */

static void set_telling(struct pipeline *p, enum telling telling)
{
	log_debug("check-in", "from=%s to=%s", telling_names[p->telling], telling_names[telling]);
	assert(p->telling < TELLING_LAST_SENT || telling == TELLING_OVER);
	p->telling = telling;
}

void pipeline_on_checkin_due(struct pipeline *p)
{
	set_telling(p, p->telling < TELLING_LAST_SENT ? TELLING_DUE : TELLING_OVER);
	pipeline_set_due(p, DUE_CHECKIN, CHECKIN_PERIOD_MS);
}

/* A batch would have to wait for it, but it comes once a minute and takes a millisecond. */
static void send_checkin(struct pipeline *p, bool is_last)
{
	const struct event *oldest = events_oldest(&p->events);
	bool is_sent;
	char *text;

	p->checkin.needed_ms = oldest ? oldest->came_us / 1000 : INT64_MAX;
	text = checkin_write(&p->checkin, is_last, now_ms(p));
	is_sent = store_checkin(p->first.store, text) == 0;
	if (!is_sent)
		line_minutes_told(&line_minutes, false);

	if (is_last)
		set_telling(p, is_sent ? TELLING_LAST_SENT : TELLING_OVER);
	else if (is_sent)
		set_telling(p, TELLING_SENT);
	free(text);
}

static void on_lines(void *arg, const char *rows, size_t len)
{
	line_counts_take(&line_minutes, &pipeline_of(arg)->checkin.lines, rows, len);
}

static void on_checked_in(void *arg, bool is_told, const char *answer)
{
	struct pipeline *p = pipeline_of(arg);
	const char *why = is_told ? checkin_read(&p->checkin, answer) : NULL;

	line_minutes_told(&line_minutes, is_told);
	line_counts_told(&p->checkin.lines, is_told);
	if (p->telling == TELLING_LAST_SENT)
		set_telling(p, TELLING_OVER);
	else if (p->telling == TELLING_SENT)
		set_telling(p, TELLING_TOLD);
	if (why && !is_draining(p))
		p->on.on_unusable(p->on.arg, why, 1);
}

static void on_pause(void *arg)
{
	struct pipeline *p = pipeline_of(arg);

	if (arg == &p->first && p->telling == TELLING_DUE)
		send_checkin(p, false);
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
bool pipeline_has_left(struct pipeline *p)
{
	if (store_is_idle(p->first.store) && cursors_are_due(&p->cursors, true, now_ms(p)))
		send_cursors(p);
	if (cursors_are_sent(&p->cursors))
		return false;
	if (p->telling < TELLING_LAST_SENT && store_is_idle(p->first.store)) {
		send_checkin(p, true);
		pipeline_set_due(p, DUE_CHECKIN, LEAVE_MS);
	}
	return p->telling != TELLING_SENT && p->telling != TELLING_LAST_SENT;
}

/* --- a failed store: wait, try again --- */

/* Another message with the id of ev, which was refused or put off, need not wait until ev is tried again: the backoff
 * is for a message, and what was wrong may be in its bytes. Returns false if each was tried as often as ev. */
bool pipeline_try_other(struct pipeline *p, struct event *ev)
{
	struct event *next = event_next(ev);

	if (!next || event_tries(next) >= event_tries(ev))
		return false;
	hold_remove(ev);
	event_move(&p->events, ev, EV_BEHIND);
	pipeline_try_next(p, ev, next);
	event_put_behind(next, ev, false);
	return true;
}

static void fail_store(struct pipeline *p, struct event *ev, const char *why)
{
	log_debug("row refused", "reason=%s", why);
	event_set_reason(ev, why);
	ev->attempts++;
	if (ev->attempts >= p->config->max_attempts) {
		pipeline_refuse_event(p, ev, NULL);
		return;
	}
	if (pipeline_try_other(p, ev))
		return;
	/* The claim is kept for the backoff, so that the fleet as a whole waits, and N listeners do not try one after
	 * the other at once. */
	pipeline_set_wait(p, ev, WAIT_RETRY);
	event_move(&p->events, ev, EV_BACKING_OFF);
	hold_add(&p->hold, ev, now_ms(p), RETRY_STEP + ev->attempts - 1);
}

/* What the server cannot do for this listener it can seldom do for another one: the claim is kept. */
static void put_off(struct pipeline *p, struct event *ev, const char *why)
{
	unsigned int step = RETRY_STEP + ev->put_offs;

	log_debug("event postponed", "reason=%s", why);
	ev->put_offs += ev->put_offs < UINT16_MAX;
	pipeline_set_wait(p, ev, WAIT_SERVER);
	event_move(&p->events, ev, EV_BACKING_OFF);
	hold_add(&p->hold, ev, now_ms(p), is_draining(p) ? RETRY_STEP : step < PUT_OFF_STEP ? step : PUT_OFF_STEP);
}

/* --- batch and store --- */

/* The last one may not be told of to its end. */
static void begin_batch(struct writer *w)
{
	w->batch = &w->batches[w->batch == w->batches];
	batch_clear(w->batch);
}

static void dead_letter_next(struct pipeline *p)
{
	struct writer *w = &p->first;

	begin_batch(w);
	list_each(node, after, &p->events.lists[EV_REFUSED]) {
		struct event *ev = list_entry(node, struct event, link);

		if (!batch_add(w->batch, ev))
			break;
		event_move(&p->events, ev, EV_DEAD_LETTERING);
	}
	store_dead_letter(w->store, w->batch);
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

/* --- what is stored next --- */

/* Many small statements would cost more than few. */
int64_t pipeline_store_wait(struct pipeline *p)
{
	size_t rows = p->events.counts[EV_BATCHED];

	if (is_draining(p) || rows >= (size_t)p->config->batch_max)
		return 0;
	return pace_wait(&p->pace, rows, now_ms(p));
}

static void insert_batch(struct writer *w)
{
	struct pipeline *p = w->pipeline;

	w->sent_ms = now_ms(p);
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
static bool is_dead_letter_due(const struct pipeline *p)
{
	size_t refused = p->events.counts[EV_REFUSED], batched = p->events.counts[EV_BATCHED];

	if (p->due_ms[DUE_DEAD_LETTER])
		return false;
	return refused && (!batched || p->since_dead_letter >= (refused < batched ? DEAD_LETTER_BATCHES : 1));
}

/* Is there an event whose mark may be read before a batch tells the epoch? */
static bool may_read_marks(const struct pipeline *p)
{
	const size_t *counts = p->events.counts;

	return (counts[EV_CLAIMING] || counts[EV_HELD]) && claim_is_ready(p->claim);
}

/* One backend of Postgres runs on one core, and is idle during its commit and until the next batch arrives. If rows
 * arrive faster than it stores them, a second backend stores every other batch. The second one is not used while the
 * first is stalled. */
static void store_beside(struct pipeline *p)
{
	struct writer *w = &p->second;
	bool is_alone = FAULT_POINT("pipeline: a second connection");

	if (p->config->postgres_connections < 2 || !p->first.epoch || config_store_path(p->config) ||
	    store_is_idle(p->first.store) || store_is_stalled(p->first.store))
		return;
	if (!w->store && now_ms(p) >= p->second_from_ms && (p->behind >= BEHIND_BATCHES || is_alone)) {
		log_info("rows come faster than one connection stores them, opening a second one", "rows=%zu",
			 p->events.counts[EV_BATCHED]);
		pipeline_open_writer(p, w);
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
	if (p->telling == TELLING_DUE || (p->telling == TELLING_TOLD && FAULT_POINT("pipeline: a check-in is due"))) {
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
	if (is_dead_letter_due(p)) {
		p->since_dead_letter = 0;
		dead_letter_next(p);
	} else if (p->events.counts[EV_BATCHED] && pipeline_store_wait(p) == 0) {
		p->since_dead_letter++;
		insert_next(p);
	} else if (may_read_marks(p) && !store_is_sure(p->first.store)) {
		store_ask_epoch(p->first.store);
	}
}

void pipeline_store_next(struct pipeline *p)
{
	store_first(p);
	store_beside(p);
}

/* --- a slow store --- */

static int64_t oldest_of(const struct pipeline *p, enum event_state state)
{
	const struct list *all = &p->events.lists[state];

	return list_is_empty(all) ? INT64_MAX : list_entry(all->next, struct event, link)->received_us / 1000;
}

/* Milliseconds for which the oldest row has waited, and their number. */
static int64_t rows_wait(const struct pipeline *p, size_t *n)
{
	int64_t batched = oldest_of(p, EV_BATCHED), storing = oldest_of(p, EV_STORING);

	*n = p->events.counts[EV_BATCHED] + p->events.counts[EV_STORING];
	return *n ? now_ms(p) - (batched < storing ? batched : storing) : 0;
}

int64_t pipeline_is_slow(const struct pipeline *p, const char **why)
{
	static char sentence[120];
	size_t rows;
	int64_t ms = rows_wait(p, &rows);

	*why = "";
	if (!p->slow.told_ms || !rows)
		return 0;
	snprintf(sentence, sizeof(sentence), "%s is slow: %zu events wait, the oldest for %lld s",
		 config_store_path(p->config) ? "sqlite" : "postgres", rows, (long long)ms / 1000);
	*why = sentence;
	return ms;
}

static void tell_slowness(struct pipeline *p, size_t rows, int64_t ms)
{
	log_warn("the store is slow, events wait", "events=%zu oldest_s=%lld stored=%llu", rows, (long long)ms / 1000,
		 (unsigned long long)(counters.persisted - p->slow.stored));
	p->slow.told_ms = now_ms(p);
	p->slow.stored = counters.persisted;
}

static void end_slowness(struct pipeline *p)
{
	if (p->slow.told_ms)
		log_info("the store is fast enough again", "after_s=%lld",
			 (long long)(now_ms(p) - p->slow.since_ms) / 1000);
	p->slow = (struct slowness){.since_ms = now_ms(p), .stored = counters.persisted};
}

/* A store that cannot be used at all has lines of its own. */
void pipeline_check_slowness(struct pipeline *p)
{
	size_t rows;
	int64_t ms = rows_wait(p, &rows);

	if (*pipeline_trouble(p))
		return;
	if (ms < SLOW_MS || !(is_behind(p) || p->slow.told_ms))
		end_slowness(p);
	else if (now_ms(p) >= (p->slow.told_ms ? p->slow.told_ms + SLOW_AGAIN_MS : p->slow.since_ms + SLOW_MS))
		tell_slowness(p, rows, ms);
}

static void on_idle(void *arg)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;

	stall_took(&p->stall, now_ms(p) - w->sent_ms);
	pipeline_store_next(p);
}

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
		pipeline_send_to_store(p, ev);
		return;
	}
	note_result(p, ev, result);
	switch (result) {
	case STORE_INSERTED:
		ev->won_ms = ev->came_us / 1000;
		claim_mark(p->claim, ev, CLAIM_MARK_DONE);
		pipeline_settle(p, ev, OUTCOME_PERSISTED);
		return;
	case STORE_PRESENT:
		/* It may be ours, of a batch whose outcome nobody saw, or another message's: which, nobody can tell. */
		if (!ev->is_counted)
			duplicates_late(ev->id, ev->id_len, now_ms(p));
		claim_mark(p->claim, ev, CLAIM_MARK_DONE);
		pipeline_settle(p, ev, OUTCOME_DUPLICATE);
		return;
	case STORE_LATER:
	case STORE_BLOCKED:
		put_off(p, ev, why);
		return;
	case STORE_REFUSED:
		fail_store(p, ev, why);
		return;
	case STORE_HOPELESS:
		pipeline_refuse_event(p, ev, why);
		return;
	case STORE_UNKNOWN:
		return;
	}
}

static void on_reported(void *arg)
{
	done_channel_publish(claim_channel(pipeline_of(arg)->claim));
}

/* Letters that cannot be written wait beside the events. */
static void on_dead_lettered(void *arg, struct event *ev, enum store_dead_letter dead_letter)
{
	struct pipeline *p = pipeline_of(arg);
	bool is_stored = dead_letter == STORE_HAS_ROW;

	if (dead_letter == STORE_NOT_DEAD_LETTERED) {
		event_move(&p->events, ev, EV_REFUSED);
		pipeline_set_due(p, DUE_DEAD_LETTER, DEAD_LETTER_WAIT_MS);
		return;
	}
	stall_stored(&p->stall);
	if (ev->id_len && !ev->is_loose)
		claim_mark(p->claim, ev, is_stored ? CLAIM_MARK_DONE : CLAIM_MARK_DEAD);
	pipeline_settle(p, ev, is_stored ? OUTCOME_DUPLICATE : OUTCOME_REJECTED);
}

/* --- the two connections --- */

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

/* The fleet agrees on the hashes of events as soon as the database and its epoch are known. */
static void set_id_key(struct pipeline *p)
{
	const struct id_hash_key *key = done_channel_key(claim_channel(p->claim));

	if (!key)
		return;
	line_minutes_end_gaps(&line_minutes);
	events_set_key(&p->events, key);
}

static void on_database(void *arg, const char *id)
{
	struct writer *w = arg;
	struct pipeline *p = w->pipeline;

	if (w == &p->second)
		return;
	claim_set_database(p->claim, id);
	set_id_key(p);
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
	if (!config_store_path(p->config)) /* a file is the only one to know what is stored */
		claim_set_epoch(p->claim, epoch);
	set_id_key(p);
	if (epoch)
		p->epoch = epoch;
	if (!is_other)
		return;
	cursors_clear(&p->cursors);
	if (p->on_forgotten)
		p->on_forgotten(p->on_forgotten_arg);
}

void pipeline_open_writer(struct pipeline *p, struct writer *w)
{
	const struct store_callbacks on = {
		.on_idle = on_idle,
		.on_pause = on_pause,
		.on_stored = on_stored,
		.on_reported = on_reported,
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

	w->pipeline = p;
	w->sent_ms = now_ms(p);
	for (int i = 0; i < 2; i++)
		batch_init(&w->batches[i], (size_t)p->config->batch_max, BATCH_BYTES);
	w->store = store_open(p->loop, p->config, &on);
}

void pipeline_close_writer(struct writer *w)
{
	batch_free(&w->batches[0]);
	batch_free(&w->batches[1]);
}

void pipeline_on_second_closed(void *arg)
{
	struct pipeline *p = arg;

	pipeline_close_writer(&p->second);
	p->second = (struct writer){0};
	if (p->open)
		pipeline_on_part_closed(p);
}

/* The second connection is not kept where it is of no use: others may need its place. Above all the first one does,
 * where a role may have one connection only. */
void pipeline_check_second(struct pipeline *p)
{
	struct writer *w = &p->second;
	bool is_unused =
		now_ms(p) - w->sent_ms >= UNUSED_MS || FAULT_POINT("pipeline: the second connection is not used");

	if (!w->store || w->is_closing || (p->first.epoch && !(is_unused && (!w->epoch || store_is_idle(w->store)))))
		return;
	if (p->first.epoch && !w->epoch)
		p->second_from_ms = now_ms(p) + USELESS_MS;
	p->behind = 0;
	store_give_up(w->store);
	w->is_closing = true;
	store_close(w->store, pipeline_on_second_closed, p);
}
