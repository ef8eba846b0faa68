/* pipeline.c owns the road of an event: which stage comes next.
 *
 *     source ──┐                            ┌─ mine ──▶ batch ──▶ store ──▶ settle: mark, ack, free
 *              ├─▶ envelope ──▶ event ──▶ claim ─ done ──────────────────────▶ settle
 *     ingest ──┘   bytes to     one entry   └─ other's ─▶ hold ── done ──────▶ settle
 *        │         slices       per id │       ▲ ▲          └──── gone ──▶ claim again
 *        │                             └ left ─┘ └── released after a failed store
 *        └─ refuse ──▶ dead_letter ──▶ settle
 *
 * The stages do not know each other; each reports to a function on_x, and only these decide: those of claims and waits
 * are in pipeline_claim.c, those of the store in pipeline_store.c.
 * When in doubt, an event goes to the store and is not dropped: Redis saves work, Postgres decides.
 * An event leaves memory only by pipeline_settle(), which is called with knowledge: its row is committed,
 * a done mark was read, or its dead letter is committed. */
#include "road/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "road/duplicates.h"
#include "road/line_minutes.h"
#include "road/pipeline_inside.h"
#include "road/presence.h"
#include "road/rejected.h"

#define CLAIM_WINDOW    8192  /* claims unanswered at which producers are not read from, */
#define DEFER_WINDOW    6144  /* or events left to others, */
#define AHEAD_MOST      16384 /* events left to others at which one that leads no source stops reading */
#define MOVING_MS       350   /* since the done channel told of a copy: it moves, */
#define LEADING_MS      1000  /* and since this listener claimed as a leader: it leads */
#define BACKLOG_BATCHES 4     /* or batches that wait for a Postgres that works */
#define WHOLE           8     /* eighths of all limits */
#define OF_PRODUCERS    6     /* eighths that producers may fill where there are feeds */
#define LAST_ANSWERS_MS 200   /* for the last releases to reach Redis */
#define LEAVE_SPOOL_MS  5000  /* for the last events to be written to the spool */
#define WATCH_MS        250   /* between two looks whether rows can be stored */

static const char *const life_names[] = {"working", "resting", "draining", "drained"};

void pipeline_set_life(struct pipeline *p, enum life life)
{
	log_debug("pipeline", "from=%s to=%s", life_names[p->life], life_names[life]);
	assert(life >= LIFE_DRAINING ? life > p->life : p->life < LIFE_DRAINING);
	p->life = life;
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

static size_t limit_of(const struct pipeline *p, const struct gate *g)
{
	return (size_t)p->config->inflight_bytes / WHOLE * g->eighths;
}

/* Reading stops at the limit and goes on at seven eighths of it, so that it does not flap. */
static void check_memory(const struct pipeline *p, struct gate *g)
{
	size_t bytes = pipeline_bytes(p);
	size_t limit = limit_of(p, g);

	if (g->is_full ? bytes >= limit - limit / 8 : bytes < limit)
		return;
	g->is_full = !g->is_full;
	counters.pauses += g == &p->all && g->is_full;
	counters.ingest_pauses += g == &p->producers && g->is_full;
	if (g == &p->all || g->eighths < WHOLE)
		tell_memory(g, bytes, limit);
}

/* Messages can be read faster than Redis answers, than Postgres stores, and than the other instances
 * read them. Then producers wait: a claim whose answer comes too late would count as an outage, a longer
 * queue of rows is only memory and latency, and ten thousand copies of what another instance has not
 * even read cost more than all else, as none of them is in the processor's cache when its time comes. When Postgres
 * stalls, the queue may take their whole share of the budget. A feed has no replay, and a server that is not read from
 * hangs up: feeds are read until the budget is used. */
static bool is_over(const struct pipeline *p, size_t eighths)
{
	size_t rows = BACKLOG_BATCHES * (size_t)p->config->batch_max * eighths / WHOLE;
	size_t bytes = BACKLOG_BATCHES * BATCH_BYTES / WHOLE * eighths;
	bool is_backed_up = p->events.counts[EV_BATCHED] >= rows || p->events.message_bytes[EV_BATCHED] >= bytes;

	return p->events.counts[EV_CLAIMING] >= CLAIM_WINDOW / WHOLE * eighths ||
	       p->deferred >= DEFER_WINDOW / WHOLE * eighths || (is_backed_up && !store_is_stalled(p->first.store));
}

/* A listener far ahead of a leader that stores takes the processor from it, and its copies have left the cache when the
 * channel tells of them. While the channel is silent (Postgres is slow or away), only the memory budget bounds it, and
 * one that leads a source itself reads on. */
static bool is_too_far_ahead(const struct pipeline *p)
{
	size_t most = p->is_ahead ? AHEAD_MOST / 2 : AHEAD_MOST;

	return p->deferred >= most && p->told_ms && now_ms(p) - p->told_ms < MOVING_MS &&
	       (!p->led_ms || now_ms(p) - p->led_ms > LEADING_MS);
}

static void check_budget(struct pipeline *p)
{
	enum pressure now;

	check_memory(p, &p->producers);
	check_memory(p, &p->all);
	p->is_behind = is_over(p, p->is_behind ? p->producers.eighths / 2 : p->producers.eighths);
	p->is_ahead = is_too_far_ahead(p);
	now = p->all.is_full || p->is_ahead          ? PRESSURE_ALL
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

void pipeline_refuse_event(struct pipeline *p, struct event *ev, const char *why)
{
	if (why)
		event_set_reason(ev, why);
	event_move(&p->events, ev, EV_REFUSED);
}

static void check_drained(struct pipeline *p)
{
	if (p->life != LIFE_DRAINING || p->events.messages != p->events.away || claim_unanswered(p->claim) ||
	    !pipeline_has_left(p))
		return;
	pipeline_set_life(p, LIFE_DRAINED);
	p->on.on_drained(p->on.arg, 0);
}

/* A dead letter has no row, so nobody can say whether a line missed it. */
static void note_lines(const struct event *ev, enum outcome outcome)
{
	struct line_copy copy = {event_origin(ev), ev->id_hash.half[0], ev->won_ms, ev->came_us / 1000,
				 outcome == OUTCOME_PERSISTED};

	if (outcome == OUTCOME_REJECTED)
		return;
	line_minutes_settle(&line_minutes, &copy);
	copy.source = ev->also;
	copy.is_stored = false;
	if (ev->also)
		line_minutes_settle(&line_minutes, &copy);
}

static void finish(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	note_lines(ev, outcome);
	pipeline_set_wait(p, ev, WAIT_NONE);
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
	spooling_settle(p, ev);
	if (ev->order)
		order_end(&p->order, ev);
	event_move(&p->events, ev, EV_DONE);
	event_finish(&p->events, ev, outcome);
}

/* A message that waited behind another, and is not tried any more, becomes a dead letter. */
static void set_aside(struct pipeline *p, struct event *ev, const char *why)
{
	ev->is_loose = true;
	pipeline_refuse_event(p, ev, why);
}

/* ev leaves its place to another message with its id, which is tried now. */
void pipeline_try_next(struct pipeline *p, struct event *ev, struct event *next)
{
	event_give_place(&p->events, ev, next);
	if (next->is_claimed) {
		event_move(&p->events, next, EV_BATCHED);
		return;
	}
	event_move(&p->events, next, EV_CLAIMING);
	pipeline_take_claim(p, next);
}

/* What is left behind an event that has settled; behind a dead letter, only what was too old for a try. */
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

/* A row makes all messages with its id duplicates. A dead letter speaks of one of them. */
void pipeline_settle(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	struct event *next = outcome == OUTCOME_REJECTED ? event_next(ev) : NULL, *behind;
	int64_t won_ms = ev->won_ms;

	ev->is_claimed &= outcome != OUTCOME_REJECTED; /* a mark is there instead */
	if (next)
		pipeline_try_next(p, ev, next);
	behind = ev->behind;
	finish(p, ev, outcome);
	settle_behind(p, behind, outcome, won_ms);
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
	char reason[200];

	snprintf(reason, sizeof(reason),
		 "the message has %llu bytes, more than %s allows, so only its first %zu are kept",
		 (unsigned long long)total,
		 source ? "the profile's max_message_bytes, or --max-message," : "--max-message", len);
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

/* An event remembers two sources. Of a copy from a further one it is not known in which minute it belongs. */
static void note_source(struct event *ev, const char *source)
{
	if (!*source || strcmp(source, event_origin(ev)) == 0)
		return;
	if (!ev->also)
		ev->also = source;
	else if (strcmp(source, ev->also) != 0)
		line_minutes_settle(&line_minutes, &(struct line_copy){source, ev->id_hash.half[0], 0,
								       clock_ms(CLOCK_REALTIME_COARSE), false});
}

static void join(struct pipeline *p, struct event *ev, const char *source, struct sender *sender)
{
	note_source(ev, source);
	event_add_copy(&p->events, ev, sender);
	counters.coalesced++;
	duplicates_seen(ev->id, ev->id_len, now_ms(p) - ev->received_us / 1000);
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
		pipeline_try_other(p, lead);
	counters.variants++;
	duplicates_seen(ev->id, ev->id_len, now_ms(p) - lead->received_us / 1000);
}

#define TIME_AGAIN_MS 60000
#define CLOCK_STEP_US 1000000 /* a clock that is adjusted goes back by less, and is waited for */

/* Warns about an event's time that cannot be read, at most once a minute. */
static void tell_time(struct pipeline *p, struct slice time, enum timestamp_unit unit, const char *source)
{
	char text[60];

	counters.times_unread++;
	if (p->time_told_ms && now_ms(p) - p->time_told_ms < TIME_AGAIN_MS)
		return;
	p->time_told_ms = now_ms(p);
	snprintf(text, sizeof(text), "%.*s", time.len < sizeof(text) ? (int)time.len : (int)sizeof(text) - 1, time.at);
	log_warn("events are stored without their time: it is not written as time_unit says",
		 "source=%s time=%s unit=%s events=%llu", source, text, timestamp_unit_name(unit),
		 (unsigned long long)counters.times_unread);
}

/* The time of the next event, always later than that of the one before, unless the system clock was set back. */
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

/* What its row is to say of when and where it came from. */
static void note_origin(struct pipeline *p, struct event *ev, const struct feed_event *event, const char *from)
{
	struct slice time = event ? event->time : envelope_time(p->envelope);
	enum timestamp_unit unit = event ? event->unit : p->time_unit;

	ev->came_us = next_time(p);
	ev->from = from;
	ev->has_time = time.at && timestamp_parse(time.at, time.len, unit, &ev->time_us);
	if (time.at && !ev->has_time)
		tell_time(p, time, unit, event ? event->source : from);
}

/* A copy that nobody waits for, of an event that another listener has received at came_ms (0 if unknown) and committed.
 */
static void drop(const struct pipeline *p, const struct envelope_view *view, const char *source, int64_t came_ms)
{
	int64_t wall_ms = clock_ms(CLOCK_REALTIME_COARSE);

	counters.done_told++;
	counters.duplicates++;
	if (came_ms)
		duplicates_seen(view->id.at, view->id.len, wall_ms - came_ms);
	else
		duplicates_late(view->id.at, view->id.len, now_ms(p));
	line_minutes_settle(&line_minutes, &(struct line_copy){source, view->id_hash.half[0], came_ms, wall_ms, false});
}

/* Takes a message that was read: by the pointers, or as event by the rules of a profile. */
static void take(struct pipeline *p, const char *message, size_t len, struct envelope_view *view,
		 const struct feed_event *event, const char *from, struct sender *sender)
{
	const char *source = view->source ? view->source : from ? from : "", *why;
	const struct done *done;
	struct event *lead, *ev;
	bool is_ours, is_later;

	events_hash(&p->events, view);
	if (event && event->missing)
		line_minutes_gap(&line_minutes, source, view->id_hash.half[0], event->missing,
				 clock_ms(CLOCK_REALTIME_COARSE));
	lead = event_find(&p->events, view);
	ev = event_with_message(lead, message, len, view);
	if (ev) {
		join(p, ev, source, sender);
		pipeline_lead(p, ev, source);
	} else if (!lead && !sender && (done = pipeline_find_done(p, &view->id_hash))) {
		drop(p, view, source, done->came_ms);
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
		is_later = spooling_take(p, ev, is_ours);
		if (lead)
			wait_behind(p, lead, ev, why);
		else if (!is_later)
			pipeline_claim_or_defer(p, ev, is_ours);
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
				     .source = event->source};

	assert(view.id.len && view.id.len <= ENVELOPE_ID_MAX && view.source);
	take(p, view.payload.at, view.payload.len, &view, event, NULL, sender);
}

/* --- the spool --- */

/* An event whose record came back is new here: neither its age nor its source's leader matters any more. */
static void take_back(struct pipeline *p, const struct record *r, const struct envelope_view *view, struct event *lead,
		      const char *source, struct spool_segment *segment)
{
	struct event *ev = event_new(&p->events, lead ? EV_BEHIND : EV_CLAIMING, r->message.at, r->message.len, view,
				     NULL, now_ms(p) * 1000);

	ev->from = source;
	ev->came_us = r->came_us;
	ev->has_time = r->has_time;
	ev->time_us = r->time_us;
	spooling_join(p, ev, segment, r->ordinal);
	if (lead) {
		wait_behind(p, lead, ev, NULL);
		return;
	}
	order_set_key(&p->order, ev,
		      view->source ? envelope_find_order(p->envelope, r->message) : envelope_order(p->envelope));
	pipeline_claim_or_defer(p, ev, true);
}

void pipeline_restore(struct pipeline *p, const struct record *r, const char *source, struct spool_segment *segment)
{
	struct envelope_view view = {.id = r->id, .type = r->type, .payload = r->message, .source = source};
	const char *why = NULL;
	const struct done *done;
	struct event *lead, *ev;

	if (r->kind == RECORD_MESSAGE)
		why = envelope_read(p->envelope, r->message.at, r->message.len, &view);
	view.source = r->kind == RECORD_EVENT ? source : NULL;
	if (why) { /* the pointers were others when it was written */
		ev = event_new(&p->events, EV_REFUSED, r->message.at, r->message.len, NULL, NULL, now_ms(p) * 1000);
		event_set_reason(ev, why);
		spooling_join(p, ev, segment, r->ordinal);
		return;
	}
	events_hash(&p->events, &view);
	lead = event_find(&p->events, &view);
	ev = event_with_message(lead, r->message.at, r->message.len, &view);
	if (ev) {
		join(p, ev, source ? source : "", NULL);
		spooling_join(p, ev, segment, r->ordinal);
	} else if (!lead && (done = pipeline_find_done(p, &view.id_hash))) {
		drop(p, &view, source ? source : "", done->came_ms);
		spool_settle(p->spooling.spool, segment);
	} else {
		take_back(p, r, &view, lead, source, segment);
	}
}

/* --- draining --- */

static void on_last_answers(struct pipeline *p)
{
	if (p->life == LIFE_DRAINED)
		return;
	pipeline_set_life(p, LIFE_DRAINED);
	p->on.on_drained(p->on.arg, spooling_unsafe(p));
}

void pipeline_on_left(struct pipeline *p)
{
	pipeline_set_due(p, DUE_END, LAST_ANSWERS_MS);
}

/* The releases get a moment to reach Redis; who does not get through has its TTL. */
static void on_drain_timeout(struct pipeline *p)
{
	if (p->life == LIFE_DRAINED)
		return;
	pipeline_release_left(p);
	pipeline_set_due(p, DUE_END, spooling_leave(p) ? LEAVE_SPOOL_MS : LAST_ANSWERS_MS);
}

/* What waits for others, or for the server, waits no longer. */
static void hurry(struct pipeline *p, enum event_state state)
{
	list_each(node, after, &p->events.lists[state]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->wait == WAIT_RETRY || ev->wait == WAIT_TURN)
			continue;
		hold_remove(ev);
		pipeline_send_to_store(p, ev);
	}
}

void pipeline_drain(struct pipeline *p)
{
	pipeline_set_life(p, LIFE_DRAINING);
	presence_set_state(claim_presence(p->claim), PEER_DRAINING);
	hurry(p, EV_HELD);
	hurry(p, EV_BACKING_OFF);
	pipeline_set_due(p, DUE_DRAIN, p->config->drain_timeout_ms);
}

/* --- life --- */

static int64_t sooner(int64_t wait, int64_t other)
{
	return wait < 0 || (other >= 0 && other < wait) ? other : wait;
}

/* Milliseconds until the store is to be given rows that wait already; -1: there are none. */
static int64_t rows_wait(struct pipeline *p)
{
	return p->events.counts[EV_BATCHED] && store_is_idle(p->first.store) ? pipeline_store_wait(p) : -1;
}

static void on_renewal(struct pipeline *p)
{
	pipeline_set_due(p, DUE_RENEW, ttl_ms(p) / 9);
	pipeline_renew_leases(p);
}

static void on_watch(struct pipeline *p)
{
	pipeline_set_due(p, DUE_WATCH, WATCH_MS);
	pipeline_watch(p);
}

typedef void due_fn(struct pipeline *p);

static void on_tick(uv_timer_t *timer)
{
	static due_fn *const acts[DUES] = {
		[DUE_RENEW] = on_renewal,       [DUE_WATCH] = on_watch,      [DUE_CHECKIN] = pipeline_on_checkin_due,
		[DUE_DRAIN] = on_drain_timeout, [DUE_END] = on_last_answers,
	};
	struct pipeline *p = timer->data;

	pipeline_check_held(p);
	for (int i = 0; i < DUES; i++) {
		if (!p->due_ms[i] || p->due_ms[i] > now_ms(p))
			continue;
		p->due_ms[i] = 0;
		if (acts[i]) /* otherwise the turn that follows sees that it is time */
			acts[i](p);
	}
}

/* Milliseconds until the next tick. */
static int64_t tick_wait(struct pipeline *p)
{
	int64_t wait = sooner(sooner(hold_wait(&p->hold, now_ms(p)), pipeline_left_wait(p)), rows_wait(p));

	for (int i = 0; i < DUES; i++)
		if (p->due_ms[i])
			wait = sooner(wait, p->due_ms[i] > now_ms(p) ? p->due_ms[i] - now_ms(p) : 0);
	return wait;
}

static void on_turn(uv_prepare_t *turn)
{
	struct pipeline *p = turn->data;

	pipeline_check_stall(p);
	pipeline_take_turns(p);
	if (is_resting(p))
		pipeline_probe(p);
	pipeline_check_second(p);
	pipeline_store_next(p);
	spooling_turn(p);
	check_budget(p);
	check_drained(p);
	done_channel_publish(claim_channel(p->claim));
	uv_timer_start(&p->tick, on_tick, (uint64_t)tick_wait(p), 0);
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

bool pipeline_is_full(const struct pipeline *p)
{
	return p->all.is_full;
}

bool pipeline_is_full_for_producers(const struct pipeline *p)
{
	return p->producers.is_full || pipeline_bytes(p) >= limit_of(p, &p->producers);
}

const struct claim *pipeline_claim(const struct pipeline *p)
{
	return p->claim;
}

static void start_ticks(struct pipeline *p)
{
	uv_prepare_init(p->loop, &p->turn);
	uv_timer_init(p->loop, &p->tick);
	p->turn.data = p->tick.data = p;
	uv_prepare_start(&p->turn, on_turn);
	pipeline_set_due(p, DUE_RENEW, ttl_ms(p) / 9);
	pipeline_set_due(p, DUE_WATCH, WATCH_MS);
	pipeline_set_due(p, DUE_CHECKIN, CHECKIN_PERIOD_MS);
}

static void open_stages(struct pipeline *p)
{
	const struct claim_callbacks claim_on = {pipeline_on_claimed, pipeline_on_owner_gone, pipeline_on_done,
						 on_foreign, p};
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
	if (c->order_pointer)
		envelope_add_order(p->envelope, c->order_pointer);
	p->claim = claim_open(p->loop, c, &claim_on);
	pipeline_open_writer(p, &p->first);
}

void pipeline_use_spool(struct pipeline *p, struct spool *spool)
{
	spooling_open(p, spool);
}

const struct spool *pipeline_spool(const struct pipeline *p)
{
	return p->spooling.spool;
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
	p->producers.eighths = config->sources.count || config->feed_count ? OF_PRODUCERS : WHOLE;
	p->on = *callbacks;
	events_init(&p->events);
	spooling_open(p, NULL);
	hold_init(&p->hold);
	list_init(&p->left);
	order_init(&p->order);
	open_stages(p);
	start_ticks(p);
	return p;
}

void pipeline_on_part_closed(void *arg)
{
	struct pipeline *p = arg;

	void (*done)(void *done_arg) = p->done;
	void *done_arg = p->done_arg;

	if (--p->open)
		return;
	events_clear(&p->events);
	order_free(&p->order);
	spooling_free(p);
	envelope_free(p->envelope);
	cursors_clear(&p->cursors);
	pipeline_close_writer(&p->first);
	line_minutes_free(&line_minutes);
	free(p);
	done(done_arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
	pipeline_on_part_closed(handle->data);
}

/* The store goes first: nothing may settle any more when the claims go. */
void pipeline_close(struct pipeline *p, void (*done)(void *arg), void *arg)
{
	p->open = 4 + (p->second.store != NULL) + (p->spooling.spool != NULL);
	p->done = done;
	p->done_arg = arg;
	store_close(p->first.store, pipeline_on_part_closed, p);
	if (p->second.store && !p->second.is_closing)
		store_close(p->second.store, pipeline_on_second_closed, p);
	claim_close(p->claim, pipeline_on_part_closed, p);
	spooling_close(p);
	uv_close((uv_handle_t *)&p->turn, on_handle_closed);
	uv_close((uv_handle_t *)&p->tick, on_handle_closed);
}
