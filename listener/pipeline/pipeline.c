/* pipeline.c owns the way of an event: which stage comes next.
 *
 *     source ──┐                            ┌─ mine ──▶ batch ──▶ store ──▶ settle: mark, ack, free
 *              ├─▶ envelope ──▶ event ──▶ claim ─ done ──────────────────────▶ settle
 *     ingest ──┘   bytes to     one entry   └─ other's ─▶ hold ── done ──────▶ settle
 *        │         slices       per id │       ▲ ▲          └──── gone ──▶ claim again
 *        │                             └ left ─┘ └── released after a failed store
 *        └─ refuse ──▶ dead_letter ──▶ settle
 *
 * claiming.c decides who claims and what waits, storing.c what the store is given, and spooling.c what goes to disk.
 * When in doubt, an event goes to the store and is not dropped: Redis saves work, Postgres decides.
 * An event leaves memory only by settle(), which is called only if its row is committed, a done mark was read, or its
 * dead letter is committed. */
#include "pipeline/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "event/age_limit.h"
#include "claim/claiming.h"
#include "event/duplicates.h"
#include "event/envelope.h"
#include "event/hold.h"
#include "event/line_digests.h"
#include "event/line_minutes.h"
#include "event/order.h"
#include "event/rejected.h"
#include "spool/spooling.h"

#define LONG_TURN_MS    1000  /* a wait for a turn after which an event is claimed at once */
#define DEFER_WINDOW    6144  /* events left to others at which producers are not read */
#define BACKLOG_BATCHES 4     /* the same for batches waiting for a Postgres that works */
#define COMMAND_BYTES   128   /* a claim or mark that Redis has not answered, for the memory budget */
#define WHOLE           8     /* eighths: a whole limit */
#define OF_PRODUCERS    6     /* eighths of the limits for producers if there are feeds */
#define LAST_ANSWERS_MS 200   /* time for the last releases to reach Redis */
#define LEAVE_SPOOL_MS  5000  /* time to write the last events to the spool */
#define PUT_OFF_STEP    8     /* the longest wait of an event that the store postpones: 12.8 s */
#define TELL_AGAIN_MS   60000 /* a line that repeats is logged once in this time */
#define RETRY_STEP      2     /* hold step of the first backoff: 50 ms * 2^2 = 200 ms */

/* Pauses reading: from everybody at the limits, and from producers and feeds that resend earlier if there are other
 * feeds, which do not stop because of them. Below, those that resend are called producers. */
struct accept_pause {
	size_t eighths;  /* eighths of the limits at which reading stops */
	bool is_full;    /* the budget is used up */
	bool is_told;    /* this pause was logged */
	int64_t told_ms; /* loop clock: last pause that was logged; 0: never */
};

enum life { LIFE_WORKING, LIFE_DRAINING, LIFE_DRAINED };

struct pipeline {
	uv_loop_t *loop;
	const struct config *config;
	struct pipeline_callbacks on;
	struct envelope *envelope;
	struct age_limit stale, feed_stale;
	enum timestamp_unit time_unit; /* unit of --time-pointer */
	struct events events;
	struct claiming *claiming;
	struct claim *claim; /* the claim of claiming */
	struct storing *storing;
	struct spooling *spooling;
	struct order order;
	long partial_bytes; /* bytes of incomplete messages */
	struct accept_pause producers, all;
	bool is_behind; /* producers wait for Redis, Postgres or other listeners */
	enum pressure pressure;
	enum life life;
	int64_t end_ms;       /* loop clock: end of the drain timeout, or with is_ending, of the drain; 0: none */
	bool is_ending;       /* the drain timeout is over: only releases and the spool are awaited */
	int64_t came_us;      /* received_at of the last event, Unix time */
	int64_t time_told_ms; /* loop clock: last warning about a time; 0: never */
	bool is_payload_told; /* an event had none */
	struct line_digest *digests; /* NULL: no source has several lines */
	int64_t differ_told_ms;      /* loop clock: last warning about lines that differ; 0: never */
	uv_prepare_t turn;           /* before each wait for I/O: sends what has come in this turn */
	uv_timer_t tick;             /* for the next deadline of any part */
	struct ending ending;
};

static int64_t now_ms(const struct pipeline *p)
{
	return (int64_t)uv_now(p->loop);
}

/* --- the budget --- */

size_t pipeline_bytes(const struct pipeline *p)
{
	return p->events.bytes + (size_t)p->partial_bytes;
}

static void tell_memory(const struct accept_pause *a, size_t bytes, size_t limit)
{
	const char *what =
		a->is_full ? "memory limit reached, reading paused" : "below the memory limit, reading resumed";

	if (a->eighths < WHOLE)
		what = a->is_full ? "senders that resend use up their share of memory, not reading from them"
				  : "reading from senders that resend again";
	log_write(a->is_full ? LOG_WARN : LOG_INFO, what, "in_flight_bytes=%zu limit=%zu", bytes, limit);
}

static size_t limit_of(const struct pipeline *p, const struct accept_pause *a)
{
	return (size_t)p->config->inflight_bytes / WHOLE * a->eighths;
}

/* With a small budget and a fast source, there may be many pauses a second. A pause that begins within a minute of one
 * that was logged is logged if it lasts until then. */
static bool is_news(struct accept_pause *a, int64_t now_ms)
{
	if (a->is_full == a->is_told || (a->is_full && a->told_ms && now_ms - a->told_ms < TELL_AGAIN_MS))
		return false;
	a->is_told = a->is_full;
	if (a->is_full)
		a->told_ms = now_ms;
	return true;
}

/* Reading stops at the limit and resumes at seven eighths of it, so that it does not flap. */
static void check_memory(const struct pipeline *p, struct accept_pause *a, size_t bytes)
{
	size_t limit = limit_of(p, a);

	if (a->is_full ? bytes < limit - limit / 8 : bytes >= limit) {
		a->is_full = !a->is_full;
		counters.pauses += a == &p->all && a->is_full;
		counters.ingest_pauses += a == &p->producers && a->is_full;
	}
	if ((a == &p->all || a->eighths < WHOLE) && is_news(a, now_ms(p)))
		tell_memory(a, bytes, limit);
}

/* Messages can be read faster than Redis answers, Postgres stores, or the other listeners read them. Then producers
 * wait: a claim whose answer comes too late would count as an outage; a longer queue of rows only takes memory and adds
 * latency; and ten thousand copies that another listener has not even read would leave the cache before they settle.
 * Without Redis, each copy of a feed is left to others for a second, so their number says nothing about producers.
 * When Postgres stalls, the queue may take the producers' whole share of the budget. Feeds are read until the budget is
 * used up: they cannot resend, and their servers close connections that are not read. */
static bool is_over(const struct pipeline *p, size_t eighths)
{
	size_t rows = BACKLOG_BATCHES * (size_t)p->config->batch_max * eighths / WHOLE;
	size_t bytes = BACKLOG_BATCHES * BATCH_BYTES / WHOLE * eighths;
	bool is_backed_up = p->events.counts[EV_BATCHED] >= rows || p->events.message_bytes[EV_BATCHED] >= bytes;

	return p->events.counts[EV_CLAIMING] >= CLAIMS_MOST / WHOLE * eighths ||
	       (p->events.deferred >= DEFER_WINDOW / WHOLE * eighths && claim_is_ready(p->claim)) ||
	       (is_backed_up && !store_view(storing_store(p->storing)).is_stalled);
}

static void check_budget(struct pipeline *p)
{
	size_t bytes = pipeline_bytes(p) + claim_unanswered(p->claim) * COMMAND_BYTES;
	enum pressure now;
	bool is_ahead;

	check_memory(p, &p->producers, bytes);
	check_memory(p, &p->all, bytes);
	p->is_behind = is_over(p, p->is_behind ? p->producers.eighths / 2 : p->producers.eighths);
	is_ahead = claiming_is_far_ahead(p->claiming) || storing_is_far_ahead(p->storing);
	now = p->all.is_full || is_ahead             ? PRESSURE_ALL
	      : p->producers.is_full || p->is_behind ? PRESSURE_PRODUCERS
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

/* --- settle --- */

/* Makes ev a dead letter. why is copied; NULL keeps the reason of ev. */
static void refuse_event(struct pipeline *p, struct event *ev, const char *why)
{
	if (why)
		event_set_reason(ev, why);
	event_move(&p->events, ev, EV_REFUSED);
}

static void drained(struct pipeline *p, size_t left);

static void check_drained(struct pipeline *p)
{
	if (p->life != LIFE_DRAINING || p->events.messages != p->events.away || claim_unanswered(p->claim) ||
	    !storing_is_over(p->storing))
		return;
	drained(p, 0);
}

/* Counts a settled event on its lines. A dead letter has no row, so it is unknown if a line missed it. */
static void note_lines(const struct event *ev, enum outcome outcome)
{
	struct line_copy copy = {event_origin(ev), ev->lines,          ev->id_hash.half[0],
				 ev->won_ms,       ev->came_us / 1000, outcome == OUTCOME_PERSISTED,
				 ev->after_ms};

	if (outcome == OUTCOME_REJECTED)
		return;
	if (ev->is_filling && outcome == OUTCOME_PERSISTED)
		line_minutes_fill(&line_minutes, copy.source, clock_ms(CLOCK_REALTIME_COARSE));
	line_minutes_settle(&line_minutes, &copy);
	copy.source = ev->also;
	copy.came_ms += ev->also_ms;
	copy.lines = ev->also_lines;
	copy.after_ms = NULL;
	copy.is_stored = false;
	line_minutes_settle(&line_minutes, &copy);
}

static void finish(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	note_lines(ev, outcome);
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
		if (ev->reason && !ev->attempts)
			rejected_refused(ev->reason);
		if (ev->reason)
			rejected_checkin(event_source(ev), ev->reason, ev->message, ev->message_len);
		break;
	}
	spooling_settle(p->spooling, ev);
	if (ev->order)
		order_end(&p->order, ev);
	event_move(&p->events, ev, EV_DONE);
	event_finish(&p->events, ev, outcome);
}

/* Makes a dead letter of a message that waited behind another and is not retried. */
static void set_aside(struct pipeline *p, struct event *ev, const char *why)
{
	ev->is_loose = true;
	refuse_event(p, ev, why);
}

/* Gives the place of ev to another message with its id, which is tried now. */
static void try_next(struct pipeline *p, struct event *ev, struct event *next)
{
	event_give_place(&p->events, ev, next);
	if (next->is_claimed) {
		event_move(&p->events, next, EV_BATCHED);
		return;
	}
	event_move(&p->events, next, EV_CLAIMING);
	claiming_claim_now(p->claiming, next);
}

/* Settles the events behind a settled one; behind a dead letter, only those that were too old to be tried. */
static void settle_behind(struct pipeline *p, struct event *ev, enum outcome outcome, int64_t won_ms)
{
	for (struct event *after; ev; ev = after) {
		after = ev->behind;
		ev->behind = NULL;
		if (outcome == OUTCOME_REJECTED) {
			counters.stale++;
			set_aside(p, ev, NULL);
		} else {
			ev->won_ms = won_ms;
			finish(p, ev, OUTCOME_DUPLICATE);
		}
	}
}

/* A row makes all messages with its id duplicates. A dead letter covers only one message. */
static void settle(void *arg, struct event *ev, enum outcome outcome)
{
	struct pipeline *p = arg;
	struct event *next = outcome == OUTCOME_REJECTED ? event_next(ev) : NULL, *behind;
	int64_t won_ms = ev->won_ms;

	ev->is_claimed &= outcome != OUTCOME_REJECTED; /* the dead mark has replaced the claim */
	if (next)
		try_next(p, ev, next);
	behind = ev->behind;
	finish(p, ev, outcome);
	settle_behind(p, behind, outcome, won_ms);
}

/* --- after a failed store: wait, try again --- */

static bool try_other(void *arg, struct event *ev)
{
	struct pipeline *p = arg;
	struct event *next = event_next(ev);

	if (!next || event_tries(next) >= event_tries(ev))
		return false;
	hold_remove(ev);
	event_move(&p->events, ev, EV_BEHIND);
	try_next(p, ev, next);
	event_put_behind(next, ev, false);
	return true;
}

static void fail_store(struct pipeline *p, struct event *ev, const char *why)
{
	log_debug("row refused", "reason=%s", why);
	event_set_reason(ev, why);
	if (!ev->attempts++)
		rejected_refused(why);
	if (ev->attempts >= p->config->max_attempts) {
		refuse_event(p, ev, NULL);
		return;
	}
	if (try_other(p, ev))
		return;
	/* Keep the claim during the backoff, so that the fleet as a whole waits and the listeners do not retry one
	 * after the other. */
	claiming_back_off(p->claiming, ev, WAIT_RETRY, RETRY_STEP + ev->attempts - 1);
}

/* Keeps the claim: if the server cannot store it for this listener, it can seldom do so for another. */
static void put_off(struct pipeline *p, struct event *ev, const char *why)
{
	unsigned int step = RETRY_STEP + ev->put_offs;

	log_debug("event postponed", "reason=%s", why);
	ev->put_offs += ev->put_offs < UINT16_MAX;
	claiming_back_off(p->claiming, ev, WAIT_SERVER,
			  p->life != LIFE_WORKING ? RETRY_STEP
			  : step < PUT_OFF_STEP   ? step
						  : PUT_OFF_STEP);
}

/* --- what the store says --- */

/* Its row may still exist: then no dead letter is written, and ev is a duplicate. */
static void on_stale(void *arg, struct event *ev)
{
	struct pipeline *p = arg;

	counters.stale += ev->copies;
	refuse_event(p, ev, ev->source ? p->feed_stale.too_old : p->stale.too_old);
}

static void on_stored(void *arg, struct event *ev, enum store_result result, const char *why)
{
	struct pipeline *p = arg;

	switch (result) {
	case STORE_INSERTED:
		ev->won_ms = ev->came_us / 1000;
		claim_mark(p->claim, ev, CLAIM_MARK_DONE);
		settle(p, ev, OUTCOME_PERSISTED);
		return;
	case STORE_PRESENT:
		/* The row may be ours, from a batch whose result was lost, or that of another message. */
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
		refuse_event(p, ev, why);
		return;
	case STORE_UNKNOWN:
		return;
	}
}

static void on_dead_lettered(void *arg, struct event *ev, enum store_dead_letter dead_letter)
{
	struct pipeline *p = arg;
	bool is_stored = dead_letter == STORE_HAS_ROW;

	if (ev->id_len && !ev->is_loose)
		claim_mark(p->claim, ev, is_stored ? CLAIM_MARK_DONE : CLAIM_MARK_DEAD);
	settle(p, ev, is_stored ? OUTCOME_DUPLICATE : OUTCOME_REJECTED);
}

static void on_posted(void *arg)
{
	struct pipeline *p = arg;

	p->on.on_posted(p->on.arg);
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	struct pipeline *p = arg;

	p->on.on_unusable(p->on.arg, sentence, status);
}

/* The hashes of events are the same in the fleet once the database and its epoch are known. */
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
	struct pipeline *p = arg;

	claim_set_database(p->claim, id);
	set_id_key(p);
}

/* With an SQLite file, marks have no epoch: only the file knows what is stored. */
static void on_epoch(void *arg, uint32_t epoch)
{
	struct pipeline *p = arg;

	if (!config_store_path(p->config))
		claim_set_epoch(p->claim, epoch);
	set_id_key(p);
}

/* --- receive --- */

static void begin(void *arg, struct event *ev, bool is_ours)
{
	struct pipeline *p = arg;

	if (!ev->order || order_begin(ev)) {
		claiming_take(p->claiming, ev, is_ours);
		return;
	}
	ev->is_ours = is_ours;
	ev->held_ms = now_ms(p);
	event_set_wait(&p->events, ev, WAIT_TURN);
	event_move(&p->events, ev, EV_HELD);
}

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

void pipeline_refuse(struct pipeline *p, const char *source, const char *message, size_t len, const char *reason,
		     struct sender *sender)
{
	take_refused(p, message, len, NULL, NULL, reason, sender)->source = source;
}

void pipeline_refuse_long(struct pipeline *p, const char *source, const char *head, size_t len, const uint8_t *digest,
			  uint64_t total, struct sender *sender)
{
	char reason[200];

	snprintf(reason, sizeof(reason),
		 "the message has %llu bytes, more than %s allows, so only its first %zu are kept",
		 (unsigned long long)total,
		 source ? "the profile's max_message_bytes, or --max-message," : "--max-message", len);
	take_refused(p, head, len, NULL, digest, reason, sender)->source = source;
}

/* Returns why the last message, or the event, is too old, or NULL. Call it before the claim; a copy of an event in
 * flight is not checked again. */
static const char *find_stale(const struct pipeline *p, const struct feed_event *event)
{
	if (!p->stale.max_age_us)
		return NULL;
	if (event)
		return age_limit_reason(&p->feed_stale, event->time, event->unit, clock_us(CLOCK_REALTIME_COARSE));
	return age_limit_reason(&p->stale, envelope_time(p->envelope), p->stale.unit, clock_us(CLOCK_REALTIME_COARSE));
}

/* Records the line of a copy. An event remembers two sources; a copy from a third one counts as unknown. */
static void note_line(struct event *ev, const char *source, unsigned int line)
{
	bool is_same = strcmp(source, event_origin(ev)) == 0;
	uint8_t lines = (uint8_t)(1u << line);
	int64_t wall_ms, after_ms;

	if (!*source || (is_same && ev->lines & lines))
		return;
	wall_ms = clock_ms(CLOCK_REALTIME_COARSE);
	after_ms = wall_ms - ev->came_us / 1000;
	after_ms = after_ms < 0 ? 0 : after_ms > UINT16_MAX ? UINT16_MAX : after_ms;
	if (is_same) {
		ev->after_ms[line] = (uint16_t)after_ms;
		ev->lines |= lines;
		return;
	}
	if (!ev->also) {
		ev->also = source;
		ev->also_ms = (uint32_t)after_ms;
	}
	if (strcmp(source, ev->also) == 0)
		ev->also_lines |= lines;
	else
		line_minutes_settle(&line_minutes, &(struct line_copy){.source = source,
								       .lines = lines,
								       .hash = ev->id_hash.half[0],
								       .came_ms = wall_ms});
}

static void join(struct pipeline *p, struct event *ev, const char *source, unsigned int line, struct sender *sender)
{
	note_line(ev, source, line);
	event_add_copy(&p->events, ev, sender);
	counters.coalesced++;
	duplicates_seen(ev->id, ev->id_len, now_ms(p) - ev->received_us / 1000);
}

/* Makes ev wait behind lead, another message with the same id that is in flight: for its result, but not for its
 * backoff. A stale message may only become a duplicate. */
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
	duplicates_seen(ev->id, ev->id_len, now_ms(p) - lead->received_us / 1000);
}

#define CLOCK_STEP_US 1000000 /* us: if the clock goes back by less, it is being slewed, and we wait for it */

/* Warns about an event's time that cannot be read, at most once a minute. */
static void tell_time(struct pipeline *p, struct slice time, enum timestamp_unit unit, const char *source)
{
	char text[60];

	counters.times_unread++;
	if (p->time_told_ms && now_ms(p) - p->time_told_ms < TELL_AGAIN_MS)
		return;
	p->time_told_ms = now_ms(p);
	snprintf(text, sizeof(text), "%.*s", time.len < sizeof(text) ? (int)time.len : (int)sizeof(text) - 1, time.at);
	log_warn("events are stored without their time: it is not in the expected time_unit",
		 "source=%s time=%s unit=%s events=%llu", source, text, timestamp_unit_name(unit),
		 (unsigned long long)counters.times_unread);
}

/* Warns once about events that lack a payload. */
static void tell_payload(struct pipeline *p, const char *source)
{
	if (!p->is_payload_told)
		log_warn("an event has no payload, and is stored with {}", "source=%s", source);
	p->is_payload_told = true;
}

/* Returns the received_at of the next event, always later than the one before unless the system clock was set back. */
static int64_t next_time(struct pipeline *p)
{
	int64_t now_us = clock_us(CLOCK_REALTIME), ahead_us = p->came_us - now_us;

	if (ahead_us > CLOCK_STEP_US)
		log_warn("the system clock was set back, and received_at follows it", "by_ms=%lld",
			 (long long)ahead_us / 1000);
	else if (ahead_us >= 0)
		now_us = p->came_us + 1;
	p->came_us = now_us;
	return now_us;
}

/* Sets what the row of ev says about its time and source. */
static void note_origin(struct pipeline *p, struct event *ev, const struct feed_event *event, const char *from)
{
	struct slice time = event ? event->time : envelope_time(p->envelope);
	enum timestamp_unit unit = event ? event->unit : p->time_unit;

	ev->is_kept = event && event->came_us;
	ev->came_us = ev->is_kept ? event->came_us : next_time(p);
	ev->from = from;
	ev->is_filling = event && event->is_filling;
	ev->has_time = time.at && timestamp_parse(time.at, time.len, unit, &ev->time_us);
	if (time.at && !ev->has_time)
		tell_time(p, time, unit, event ? event->source : from);
}

/* Counts a copy without a sender that came at came_ms, of an event that another listener received at won_ms (0:
 * unknown) and committed. */
static void drop(const struct pipeline *p, const struct envelope_view *view, const char *source, int64_t won_ms,
		 int64_t came_ms)
{
	counters.done_told++;
	counters.duplicates++;
	if (won_ms)
		duplicates_seen(view->id.at, view->id.len, came_ms - won_ms);
	else
		duplicates_late(view->id.at, view->id.len, now_ms(p));
	line_minutes_settle(&line_minutes, &(struct line_copy){source, 1u << view->line, view->id_hash.half[0], won_ms,
							       came_ms, false, NULL});
}

/* Warns, at most once a minute, if another line of the source has sent the event with other bytes. */
static void compare_lines(struct pipeline *p, const struct envelope_view *view)
{
	uint64_t hash = view->id_hash.half[0] ^ (uint64_t)(uintptr_t)view->source;
	const uint8_t *first;
	uint8_t other[32];
	char id[80];

	sha256(view->payload.at, view->payload.len, other);
	first = line_digests_note(&p->digests, hash, view->line, other, now_ms(p));
	if (!first)
		return;
	line_minutes_disagree(&line_minutes, view->source, view->line, view->id, first, other,
			      clock_ms(CLOCK_REALTIME_COARSE));
	if (p->differ_told_ms && now_ms(p) - p->differ_told_ms < TELL_AGAIN_MS)
		return;
	p->differ_told_ms = now_ms(p);
	snprintf(id, sizeof(id), "%.*s", view->id.len < sizeof(id) ? (int)view->id.len : (int)sizeof(id) - 1,
		 view->id.at);
	log_warn("lines of a source sent different bytes for the same event", "source=%s line=%u event_id=%s",
		 view->source, view->line + 1, id);
}

/* Takes a message whose parts were read by the pointers, or an event from the rules of a profile. */
static void take(struct pipeline *p, const char *message, size_t len, struct envelope_view *view,
		 const struct feed_event *event, const char *from, struct sender *sender)
{
	const char *source = view->source ? view->source : from ? from : "", *why;
	const struct done *done;
	struct event *lead, *ev;
	bool is_ours, is_later;

	events_hash(&p->events, view);
	if (event && event->missing)
		line_minutes_gap(&line_minutes, source, view->line, view->id_hash.half[0], event->missing,
				 clock_ms(CLOCK_REALTIME_COARSE));
	if (event && event->is_compared)
		compare_lines(p, view);
	lead = event_find(&p->events, view);
	ev = event_with_message(lead, message, len, view);
	if (ev) {
		join(p, ev, source, view->line, sender);
		claiming_lead(p->claiming, ev, source);
	} else if (!lead && !sender && (done = claiming_find_done(p->claiming, &view->id_hash))) {
		drop(p, view, source, done->came_ms, clock_ms(CLOCK_REALTIME_COARSE));
	} else if ((why = find_stale(p, event)) && !lead) {
		counters.stale++;
		take_refused(p, message, len, view, NULL, why, sender);
		return;
	} else {
		ev = event_new(&p->events, lead ? EV_BEHIND : EV_CLAIMING, message, len, view, sender,
			       now_ms(p) * 1000);
		is_ours = event ? event->is_shared : sender != NULL;
		note_origin(p, ev, event, from);
		if (p->config->order_pointer && !lead)
			order_set_key(&p->order, ev,
				      event ? envelope_find_order(p->envelope, view->payload)
					    : envelope_order(p->envelope));
		is_later = spooling_take(p->spooling, ev, is_ours);
		if (lead)
			wait_behind(p, lead, ev, why);
		else if (!is_later)
			begin(p, ev, is_ours);
	}
	counters.received++;
	counters.received_bytes += len;
	check_budget(p);
}

bool pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from, struct sender *sender)
{
	struct envelope_view view;
	const char *why = envelope_read(p->envelope, message, len, &view);

	if (!why && !view.has_payload && !sender)
		tell_payload(p, from);
	if (why)
		take_refused(p, message, len, NULL, NULL, why, sender)->from = from;
	else
		take(p, message, len, &view, NULL, from, sender);
	return !why;
}

void pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender)
{
	struct envelope_view view = {.id = event->id,
				     .type = event->type,
				     .payload = event->payload.at ? event->payload : (struct slice){"{}", 2},
				     .source = event->source,
				     .line = event->line};

	assert(view.id.len && view.id.len <= ENVELOPE_ID_MAX && view.source);
	if (!event->payload.at)
		tell_payload(p, view.source);
	take(p, view.payload.at, view.payload.len, &view, event, NULL, sender);
}

/* --- the spool --- */

/* Treats an event from the spool as a new one, but regardless of its source's leader, and of its age until it is to be
 * stored. */
static void take_back(struct pipeline *p, const struct record *r, const struct envelope_view *view, struct event *lead,
		      const char *source, struct spool_segment *segment)
{
	struct event *ev = event_new(&p->events, lead ? EV_BEHIND : EV_CLAIMING, r->message.at, r->message.len, view,
				     NULL, now_ms(p) * 1000);

	ev->from = source;
	ev->came_us = r->came_us;
	ev->has_time = r->has_time;
	ev->time_us = r->time_us;
	spooling_join(p->spooling, ev, segment, r->ordinal);
	if (lead) {
		wait_behind(p, lead, ev, NULL);
		return;
	}
	order_set_key(&p->order, ev,
		      view->source ? envelope_find_order(p->envelope, r->message) : envelope_order(p->envelope));
	begin(p, ev, true);
}

static void restore(void *arg, const struct record *r, const char *source, struct spool_segment *segment)
{
	struct pipeline *p = arg;
	struct envelope_view view = {.id = r->id, .type = r->type, .payload = r->message, .source = source};
	const char *why = NULL;
	const struct done *done;
	struct event *lead, *ev;

	if (r->kind == RECORD_MESSAGE)
		why = envelope_read(p->envelope, r->message.at, r->message.len, &view);
	view.source = r->kind == RECORD_EVENT ? source : NULL;
	if (why) { /* it was written with other pointers in the settings */
		ev = event_new(&p->events, EV_REFUSED, r->message.at, r->message.len, NULL, NULL, now_ms(p) * 1000);
		event_set_reason(ev, why);
		spooling_join(p->spooling, ev, segment, r->ordinal);
		return;
	}
	events_hash(&p->events, &view);
	lead = event_find(&p->events, &view);
	ev = event_with_message(lead, r->message.at, r->message.len, &view);
	if (ev) {
		join(p, ev, source ? source : "", 0, NULL);
		spooling_join(p->spooling, ev, segment, r->ordinal);
	} else if (!lead && (done = claiming_find_done(p->claiming, &view.id_hash))) {
		drop(p, &view, source ? source : "", done->came_ms, r->came_us / 1000);
		spool_settle(spooling_spool(p->spooling), segment);
	} else {
		take_back(p, r, &view, lead, source, segment);
	}
}

static void on_lost(void *arg)
{
	storing_forget_cursors(((const struct pipeline *)arg)->storing);
}

static void release_claims(void *arg, struct event *const *evs, size_t n)
{
	const struct pipeline *p = arg;

	claim_release(p->claim, evs, n);
}

/* --- draining --- */

static void drained(struct pipeline *p, size_t left)
{
	p->life = LIFE_DRAINED;
	spooling_stop(p->spooling);
	p->on.on_drained(p->on.arg, left);
}

static void on_left(void *arg)
{
	struct pipeline *p = arg;

	p->end_ms = now_ms(p) + LAST_ANSWERS_MS;
}

/* When the drain timeout is over, releases claims and gives that a moment to reach Redis; other claims expire. */
static void check_end(struct pipeline *p)
{
	if (p->life != LIFE_DRAINING || now_ms(p) < p->end_ms)
		return;
	if (p->is_ending) {
		drained(p, spooling_unsafe(p->spooling));
		return;
	}
	p->is_ending = true;
	claiming_release_left(p->claiming);
	p->end_ms = now_ms(p) + (spooling_leave(p->spooling) ? LEAVE_SPOOL_MS : LAST_ANSWERS_MS);
}

void pipeline_drain(struct pipeline *p)
{
	assert(p->life == LIFE_WORKING);
	p->life = LIFE_DRAINING;
	p->end_ms = now_ms(p) + p->config->drain_timeout_ms;
	storing_drain(p->storing);
	spooling_drain(p->spooling);
	claiming_drain(p->claiming);
}

/* --- life --- */

static int64_t sooner(int64_t wait, int64_t other)
{
	return wait < 0 || (other >= 0 && other < wait) ? other : wait;
}

static void on_tick(uv_timer_t *timer)
{
	struct pipeline *p = timer->data;

	claiming_tick(p->claiming);
	check_end(p);
}

/* Milliseconds until the next tick. */
static int64_t tick_wait(struct pipeline *p)
{
	int64_t wait = sooner(claiming_wait(p->claiming), storing_wait(p->storing));

	if (p->life == LIFE_DRAINING)
		wait = sooner(wait, p->end_ms > now_ms(p) ? p->end_ms - now_ms(p) : 0);
	return sooner(wait, spooling_wait(p->spooling));
}

/* Claims events whose turn has come because others with their keys have settled. One that has waited for long is not
 * left to the leader, which may have stored it meanwhile: after an outage each would wait once more. */
static void take_turns(struct pipeline *p)
{
	list_each(node, after, &p->order.due) {
		struct event *ev = list_entry(node, struct event, wait_link);

		list_remove(node);
		ev->is_ours |= now_ms(p) - ev->held_ms >= LONG_TURN_MS;
		ev->held_ms = 0;
		event_set_wait(&p->events, ev, WAIT_NONE);
		event_move(&p->events, ev, EV_CLAIMING);
		begin(p, ev, ev->is_ours);
	}
}

/* True if a mark may be read before a batch returns the epoch. */
static bool may_read_marks(const struct pipeline *p)
{
	const size_t *counts = p->events.counts;

	return (counts[EV_CLAIMING] || counts[EV_HELD]) && claim_is_ready(p->claim);
}

static void on_turn(uv_prepare_t *turn)
{
	struct pipeline *p = turn->data;

	claiming_turn(p->claiming);
	take_turns(p);
	storing_next(p->storing, may_read_marks(p));
	spooling_turn(p->spooling);
	check_budget(p);
	check_drained(p);
	done_channel_publish(claim_channel(p->claim));
	uv_timer_start(&p->tick, on_tick, (uint64_t)tick_wait(p), 0);
	/* libuv runs first what was started last: this must run before redis/talk.c sends what the turn wrote. */
	uv_prepare_stop(turn);
	uv_prepare_start(turn, on_turn);
}

static void on_foreign(void *arg, const char *sentence)
{
	struct pipeline *p = arg;

	p->on.on_unusable(p->on.arg, sentence, 2);
}

const struct events *pipeline_events(const struct pipeline *p)
{
	return &p->events;
}

int64_t pipeline_settled_us(const struct pipeline *p)
{
	struct spool_view spool = pipeline_spool(p) ? spool_view(pipeline_spool(p)) : (struct spool_view){0};
	int64_t us = events_settled_us(&p->events, clock_us(CLOCK_REALTIME));

	return spool.oldest_us && spool.oldest_us < us ? spool.oldest_us : us;
}

bool pipeline_is_full(const struct pipeline *p)
{
	return p->all.is_full;
}

bool pipeline_is_full_for_producers(const struct pipeline *p)
{
	return p->producers.is_full || pipeline_bytes(p) >= limit_of(p, &p->producers);
}

bool pipeline_is_led_elsewhere(const struct pipeline *p, const char *source, int64_t since_ms)
{
	return claim_had_other_leader(p->claim, source, since_ms);
}

const struct claim *pipeline_claim(const struct pipeline *p)
{
	return p->claim;
}

struct storing *pipeline_storing(const struct pipeline *p)
{
	return p->storing;
}

static void start_ticks(struct pipeline *p)
{
	uv_prepare_init(p->loop, &p->turn);
	uv_timer_init(p->loop, &p->tick);
	p->turn.data = p->tick.data = p;
	uv_prepare_start(&p->turn, on_turn);
}

static void open_stages(struct pipeline *p)
{
	const struct storing_callbacks storing_on = {on_stale,    on_stored, on_dead_lettered, on_posted,
						     on_database, on_epoch,  on_unusable,      p};
	const struct claiming_callbacks claiming_on = {settle, try_other, on_foreign, p};
	const struct spooling_callbacks spooling_on = {begin, release_claims, restore, on_lost, on_left, p};
	const struct config *c = p->config;

	age_limit_init(&p->stale, c);
	age_limit_init_feeds(&p->feed_stale, c);
	p->envelope = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer);
	if (c->time_pointer) {
		p->time_unit = timestamp_unit_named(c->time_unit);
		envelope_add_time(p->envelope, c->time_pointer, !c->max_age_s);
	}
	if (c->order_pointer)
		envelope_add_order(p->envelope, c->order_pointer);
	p->storing = storing_open(p->loop, c, &p->events, &storing_on);
	p->claiming = claiming_open(p->loop, c, &p->events, p->storing, &claiming_on);
	p->claim = claiming_claim(p->claiming);
	p->spooling = spooling_new(p->loop, c, &p->events, &spooling_on);
}

void pipeline_use_spool(struct pipeline *p, struct spool *spool)
{
	spooling_use(p->spooling, spool);
}

const struct spool *pipeline_spool(const struct pipeline *p)
{
	return spooling_spool(p->spooling);
}

void pipeline_doubt_marks(struct pipeline *p)
{
	claiming_doubt_marks(p->claiming);
}

/* True if some senders can wait, because they resend, and others cannot. */
static bool must_share(const struct config *c)
{
	bool can_wait = c->ingest || c->ingest_http, cannot = c->sources.count > 0;

	for (size_t i = 0; i < c->feed_count; i++)
		*(c->feeds[i]->resends ? &can_wait : &cannot) = true;
	return can_wait && cannot;
}

struct pipeline *pipeline_open(uv_loop_t *loop, const struct config *config, const struct pipeline_callbacks *callbacks)
{
	struct pipeline *p = memory_calloc(1, sizeof(*p));

	p->loop = loop;
	p->config = config;
	p->all.eighths = WHOLE;
	p->producers.eighths = must_share(config) ? OF_PRODUCERS : WHOLE;
	p->on = *callbacks;
	events_init(&p->events);
	order_init(&p->order);
	open_stages(p);
	start_ticks(p);
	return p;
}

static void release(void *object)
{
	struct pipeline *p = object;

	events_clear(&p->events);
	order_free(&p->order);
	claiming_free(p->claiming);
	spooling_free(p->spooling);
	envelope_free(p->envelope);
	line_minutes_free(&line_minutes);
	free(p->digests);
	free(p);
}

/* Closes the store first: nothing may settle after the claims are gone. */
void pipeline_close(struct pipeline *p, void (*done)(void *arg), void *arg)
{
	ending_begin(&p->ending, 4 + (spooling_spool(p->spooling) != NULL), release, p, done, arg);
	storing_close(p->storing, ending_part, &p->ending);
	claiming_close(p->claiming, ending_part, &p->ending);
	spooling_close(p->spooling, ending_part, &p->ending);
	ending_close(&p->ending, &p->turn);
	ending_close(&p->ending, &p->tick);
}
