/* claiming.c decides who claims an event and when, what a mark is worth, and which events a listener leaves to others
 * while it cannot store. It also renews leases. */
#include "claim/claiming.h"

#include <stdlib.h>

#include "base/counters.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "event/duplicates.h"
#include "event/hold.h"
#include "event/line_minutes.h"
#include "fleet/presence.h"

#define AHEAD_MOST      16384 /* events left to others at which a listener that leads no source stops reading */
#define MOVING_MS       2000  /* the channel moves if it has announced a copy within this time */
#define LEADING_MS      1000  /* this listener leads if it has claimed as a leader within this time */
#define WARNED_MS       10000 /* least time between two check-ins because another listener cannot store */
#define WATCH_MS        250   /* time between two checks whether rows can be stored */
#define CHUNK           512   /* claims per script call */
#define OVERDUE_MS      350   /* time after which an unclaimed event is claimed, and the channel counts as silent */
#define ASK_LEFT_MS     200   /* time between two claims while the channel is silent */
#define ALONE_MS        1000  /* without Redis: time after which an event goes to the store */
#define WATCH_LEADER_MS 100   /* time that a copy waits on a silent channel before its leader is watched */
#define LEFT_CHECK_MS   50    /* time between two checks of older copies */
#define FETCH_CHAIN     12    /* prefetch distance, in events of a message */
#define DOUBTS          4     /* 50, 100, 200 and 400 ms for Postgres to return its epoch */
#define ASK_STEP        3     /* hold step for the first wait (400 ms) before asking again for another's claim */
#define ASK_STEP_MOST   5     /* hold step for its longest wait (1.6 s, but at most the claim's TTL) */
#define PROBE_MS        1000  /* time between two tries of a stalled listener */
#define PASSIVE_MS      10000 /* how long a stalled listener that has no event to try stays passive */
#define TOLD_AGAIN_MS   120000

struct claiming {
	uv_loop_t *loop;
	const struct config *config;
	struct events *events;
	struct storing *storing;
	struct claiming_callbacks on;
	struct claim *claim;
	struct hold hold;
	struct list left;   /* events that the done channel may settle, oldest first, linked by wait_link */
	int64_t led_ms;     /* loop clock: when this listener last claimed an event as its source's leader; 0: never */
	int64_t told_ms;    /* loop clock: when the channel last settled a copy here */
	int64_t arrived_ms; /* loop clock: when the newest of those copies arrived */
	int64_t left_checked_ms;  /* loop clock: last search for overdue events */
	int64_t left_probed_ms;   /* loop clock: when one was last claimed because the channel was silent */
	int64_t left_free_ms;     /* loop clock: when nobody had the event of that claim; 0: somebody had it */
	bool is_ahead;            /* far ahead of the leaders, so reading stops */
	bool is_passive;          /* it cannot store, the others know it, and it leaves claims to them */
	bool is_draining;         /* draining: nothing waits for others */
	bool has_left;            /* the drain timeout is over: nothing is claimed */
	bool doubts_marks;        /* ignore marks in Redis */
	int64_t probed_ms;        /* loop clock: the last try while passive */
	int64_t renew_ms;         /* loop clock: next renewal of leases */
	int64_t watch_ms;         /* loop clock: next check if rows can be stored */
	struct log_spell passive; /* why it cannot store */
	int64_t warned_ms;        /* loop clock: when it last checked in early, since another one cannot store */
};

static int64_t now_ms(const struct claiming *c)
{
	return (int64_t)uv_now(c->loop);
}

static int64_t ttl_ms(const struct claiming *c)
{
	return c->config->claim_ttl_s * 1000;
}

/* --- claim and hold --- */

/* After an outage of Postgres, all that memory holds may be due at once. Events may wait for the spool instead. */
static bool may_ask(const struct claiming *c)
{
	return c->events->counts[EV_CLAIMING] < CLAIMS_MOST || claim_unanswered(c->claim) < CLAIMS_MOST;
}

static unsigned int ask_step(const struct claiming *c, const struct event *ev)
{
	unsigned int step = ASK_STEP + ev->asks;

	if (step > ASK_STEP_MOST)
		step = ASK_STEP_MOST;
	while (step > 0 && (int64_t)HOLD_FIRST_MS << step > ttl_ms(c))
		step--;
	return step;
}

static void hold(struct claiming *c, struct event *ev)
{
	if (c->is_draining) { /* there is no time to wait for others */
		event_send(c->events, ev);
		return;
	}
	if (!ev->held_ms)
		ev->held_ms = now_ms(c);
	event_set_wait(c->events, ev, WAIT_OWNER);
	event_move(c->events, ev, EV_HELD);
	hold_add(&c->hold, ev, now_ms(c), ask_step(c, ev));
	ev->asks += ev->asks < UINT16_MAX;
}

/* True if a mark may settle an event now, without asking the store first. */
static bool may_settle(const struct claiming *c)
{
	return store_is_sure(storing_store(c->storing)) && !c->doubts_marks;
}

/* A mark is valid only in its epoch. If the database last returned its epoch a while ago, it is asked first (see
 * store_first), and the event waits. The event goes to the store if marks are not believed, or if after 50 ms the store
 * is neither certain nor busy. A busy store may return the epoch soon, and a batch would have to wait for it as well,
 * so the event waits for up to 0.75 s. */
static void on_mark(struct claiming *c, struct event *ev, enum outcome outcome)
{
	bool may_wait = ev->doubts < DOUBTS && !(ev->doubts && store_view(storing_store(c->storing)).is_idle);

	if (may_settle(c)) {
		c->on.settle(c->on.arg, ev, outcome);
	} else if (c->doubts_marks || !may_wait || c->is_draining) {
		event_send(c->events, ev);
	} else {
		event_set_wait(c->events, ev, WAIT_EPOCH);
		event_move(c->events, ev, EV_HELD);
		if (!ev->held_ms)
			ev->held_ms = now_ms(c);
		hold_add(&c->hold, ev, now_ms(c), ev->doubts++);
	}
}

const struct done *claiming_find_done(const struct claiming *c, const struct id_hash *hash)
{
	return may_settle(c) ? done_channel_find(claim_channel(c->claim), hash) : NULL;
}

/* came_ms: when the listener that stored ev received it; 0: unknown. */
static void count_copy(struct event *ev, int64_t came_ms)
{
	if (!ev->is_counted && came_ms)
		duplicates_seen(ev->id, ev->id_len, ev->came_us / 1000 - came_ms);
	else if (!ev->is_counted)
		duplicates_late(ev->id, ev->id_len, ev->received_us / 1000);
	ev->is_counted = true;
}

/* Another listener, which received ev at came_ms (0: unknown), has committed it. */
static void count_told(struct event *ev, int64_t came_ms)
{
	counters.done_told++;
	if (came_ms)
		ev->won_ms = came_ms;
	count_copy(ev, came_ms);
}

/* The same for ev in no queue of hold.c, which settles if the epoch is known. */
static void settle_told(struct claiming *c, struct event *ev, int64_t came_ms)
{
	count_told(ev, came_ms);
	on_mark(c, ev, OUTCOME_DUPLICATE);
}

static void note_told(struct claiming *c, const struct event *ev)
{
	c->told_ms = now_ms(c);
	if (ev->held_ms > c->arrived_ms)
		c->arrived_ms = ev->held_ms;
}

/* Settles the copies of these events. The others, which have no held copy here, stay known to the channel. */
static size_t on_done(void *arg, struct done *events, size_t n)
{
	struct claiming *c = arg;
	bool is_sure = may_settle(c);
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		struct event *ev;

		if (i + FETCH_CHAIN < n)
			events_fetch_chain(c->events, &events[i + FETCH_CHAIN].hash);
		if (i + EVENT_FETCH < n) {
			events_fetch_event(c->events, &events[i + EVENT_FETCH].hash);
			line_minutes_fetch(&line_minutes, events[i + EVENT_FETCH].hash.half[0]);
		}
		ev = event_find_hash(c->events, &events[i].hash);
		if (!ev || ev->state != EV_HELD) {
			events[left++] = events[i];
			continue;
		}
		if (ev->wait == WAIT_LEADER)
			note_told(c, ev);
		if (ev->wait == WAIT_TURN && !is_sure) { /* it may not be stored after all */
			events[left++] = events[i];
			continue;
		}
		hold_remove(ev);
		if (!is_sure) {
			events[left++] = events[i];
			event_set_wait(c->events, ev, WAIT_EPOCH);
			hold_add(&c->hold, ev, now_ms(c), 0);
			continue;
		}
		count_told(ev, events[i].came_ms);
		c->on.settle(c->on.arg, ev, OUTCOME_DUPLICATE);
	}
	return left;
}

/* Claims ev after its wait, unless this listener is passive. Without Redis, ev goes to the store. */
static void claim_again(struct claiming *c, struct event *ev)
{
	if (c->is_passive && claim_is_ready(c->claim)) {
		hold(c, ev);
		return;
	}
	event_move(c->events, ev, EV_CLAIMING);
	claiming_claim_now(c, ev);
}

/* Claims ev, which is held. */
static void claim_held(struct claiming *c, struct event *ev)
{
	hold_remove(ev);
	event_set_wait(c->events, ev, WAIT_NONE);
	claim_again(c, ev);
}

/* Claims what was left to a leader that no longer leads. */
static void lead_anew(struct claiming *c)
{
	if (c->is_passive || !claim_is_ready(c->claim))
		return;
	list_each(node, after, &c->left) {
		struct event *ev = list_entry(node, struct event, wait_link);

		if (!may_ask(c)) /* the others are soon overdue */
			return;
		if (!claim_has_other_leader(c->claim, event_origin(ev)))
			claim_held(c, ev);
	}
}

/* Nobody had the claim that ev waited for: the leader has not received ev or never will, or the claim's owner died or
 * released it. */
static void note_takeover(struct claiming *c, struct event *ev)
{
	if (ev->wait == WAIT_OWNER)
		counters.claims_taken_over++;
	if (ev->wait != WAIT_LEADER)
		return;
	event_set_wait(c->events, ev, WAIT_NONE);
	counters.deferred_in_vain++;
	if (claim_has_other_leader(c->claim, event_origin(ev))) {
		presence_suspect_leader(claim_presence(c->claim), event_origin(ev));
		lead_anew(c);
	}
}

/* A passive listener leaves events to the others, even if it has the claim. After the drain timeout a claim would stay
 * behind in Redis. */
static void on_mine(struct claiming *c, struct event *ev)
{
	counters.claims_won++;
	note_takeover(c, ev);
	if (!c->is_passive && !c->has_left) {
		event_send(c->events, ev);
		return;
	}
	claim_release(c->claim, &ev, 1);
	hold(c, ev);
}

/* The source resends an event that was stored long ago. The others left their copies to this leader, so announce it to
 * them; not if it arrived just now: its mark has only the minute, and others measure how late copies are. */
static void tell_again(struct claiming *c, const struct event *ev)
{
	bool is_at_once = ev->wait == WAIT_NONE && !ev->asks;

	if (is_at_once && ev->won_ms && ev->came_us / 1000 - ev->won_ms > TOLD_AGAIN_MS)
		done_channel_add(claim_channel(c->claim), &(const struct done){ev->id_hash, ev->won_ms});
}

static void on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	struct claiming *c = arg;
	const struct done *done;

	if (ev->wait == WAIT_LEADER)
		c->left_free_ms = result == CLAIM_OTHER ? 0 : now_ms(c);
	switch (result) {
	case CLAIM_MINE:
		on_mine(c, ev);
		return;
	case CLAIM_OTHER: /* being stored elsewhere, not stored yet */
		counters.claims_lost += ev->wait != WAIT_OWNER;
		done = done_channel_find(claim_channel(c->claim), &ev->id_hash);
		counters.holds += !done && !ev->held_ms;
		if (done) /* it was told while the answer was on its way */
			settle_told(c, ev, done->came_ms);
		else
			hold(c, ev);
		return;
	case CLAIM_DONE:
		counters.claims_done++;
		tell_again(c, ev);
		on_mark(c, ev, OUTCOME_DUPLICATE);
		return;
	case CLAIM_DEAD:
		counters.claims_done++;
		on_mark(c, ev, OUTCOME_REJECTED);
		return;
	case CLAIM_ABSENT:
	case CLAIM_UNKNOWN: /* Redis is gone: the unique key decides instead */
		counters.claims_skipped++;
		event_send(c->events, ev);
		return;
	}
}

void claiming_claim_now(struct claiming *c, struct event *ev)
{
	if (c->has_left || claim_take(c->claim, ev)) {
		counters.claims_skipped++;
		event_send(c->events, ev);
	}
}

static void leave(struct claiming *c, struct event *ev)
{
	counters.deferred++;
	ev->held_ms = now_ms(c);
	event_move(c->events, ev, EV_HELD);
	/* By then Postgres has usually returned its epoch. */
	if (done_channel_find(claim_channel(c->claim), &ev->id_hash)) {
		event_set_wait(c->events, ev, WAIT_EPOCH);
		hold_add(&c->hold, ev, now_ms(c), 0);
	} else {
		event_set_wait(c->events, ev, WAIT_LEADER);
		list_append(&c->left, &ev->wait_link);
	}
}

/* The leader of a source claims its events at once, and the others leave them to it: N claims per event would cost
 * Redis and all listeners most of their time. An event that nobody else gets, or whose producer waits for an ack, is
 * claimed here at once. */
void claiming_take(struct claiming *c, struct event *ev, bool is_ours)
{
	if (is_ours)
		storing_await(c->storing);
	if (c->is_passive && claim_is_ready(c->claim)) {
		hold(c, ev);
	} else if (is_ours || c->is_draining) {
		claiming_claim_now(c, ev);
	} else if (claim_has_other_leader(c->claim, event_origin(ev)) == FAULT_POINT("pipeline: the wrong one leads")) {
		c->led_ms = now_ms(c);
		claiming_claim_now(c, ev);
	} else {
		leave(c, ev);
	}
}

void claiming_lead(struct claiming *c, struct event *ev, const char *source)
{
	if (ev->wait == WAIT_LEADER && ev->state == EV_HELD && !c->is_passive && claim_is_ready(c->claim) &&
	    !claim_has_other_leader(c->claim, source))
		claim_held(c, ev);
}

static void inherit(struct claiming *c, uint16_t owner, struct event **evs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		event_move(c->events, evs[i], EV_CLAIMING);
	counters.claims_inherited += n;
	if (n)
		claim_inherit(c->claim, owner, evs, n);
}

/* Do not hold events until a dead owner's claims expire. If another listener has inherited a claim, hold the event for
 * that one. */
static void on_owner_gone(void *arg, uint16_t owner)
{
	struct claiming *c = arg;
	struct event *chunk[CHUNK];
	size_t n = 0;

	if (c->is_passive)
		return;
	list_each(node, after, &c->events->lists[EV_HELD]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->owner != owner)
			continue;
		hold_remove(ev);
		chunk[n++] = ev;
		if (n == CHUNK || FAULT_POINT("pipeline: few claims are inherited at once")) {
			inherit(c, owner, chunk, n);
			n = 0;
		}
	}
	inherit(c, owner, chunk, n);
	lead_anew(c);
}

/* Postgres refused ev, so any listener may try now. This one claims it again only after the longest wait of the others:
 * another listener may be able to store it. */
static void give_back(struct claiming *c, struct event *ev)
{
	claim_release(c->claim, &ev, 1);
	ev->held_ms = now_ms(c);
	ev->asks = ASK_STEP_MOST;
	if (claim_is_ready(c->claim))
		hold(c, ev);
	else
		event_send(c->events, ev);
}

/* The backoff of ev is over. Its claim may have been released meanwhile, and there may be a mark by now. */
static void try_again(struct claiming *c, struct event *ev)
{
	if (ev->wait == WAIT_RETRY) {
		give_back(c, ev);
		return;
	}
	if (c->on.try_other(c->on.arg, ev))
		return;
	if (ev->is_claimed)
		event_send(c->events, ev);
	else
		claim_again(c, ev);
}

/* Ends the wait of ev: settles it, claims it, retries it, or sends it to the store. */
static void on_due(struct claiming *c, struct event *ev)
{
	const struct done *done;

	if (ev->state == EV_BACKING_OFF) {
		try_again(c, ev);
	} else if (now_ms(c) - ev->held_ms >= HOLD_TTLS * ttl_ms(c) || FAULT_POINT("pipeline: held for long")) {
		counters.hold_timeouts++;
		event_send(c->events, ev);
	} else if ((done = done_channel_find(claim_channel(c->claim), &ev->id_hash))) {
		settle_told(c, ev, done->came_ms);
	} else {
		claim_again(c, ev);
	}
}

/* True if it is time to claim ev, which was left to a leader. If the channel moves, ev is overdue if the channel has
 * announced a copy that arrived here long after ev. The clock alone would claim everything that a slow leader is about
 * to store. If the channel is silent, one event is claimed now and then, and the rest if nobody had that one. */
static bool is_overdue(struct claiming *c, const struct event *ev)
{
	int64_t now = now_ms(c);

	if (!claim_is_ready(c->claim) || !done_channel_is_heard(claim_channel(c->claim)) ||
	    now - ev->held_ms >= HOLD_TTLS * ttl_ms(c))
		return true;
	if (now - c->told_ms < OVERDUE_MS)
		return ev->held_ms < c->arrived_ms - OVERDUE_MS;
	if (c->left_free_ms && now - c->left_free_ms < ASK_LEFT_MS)
		return true;
	if (now - c->left_probed_ms < ASK_LEFT_MS)
		return false;
	c->left_probed_ms = now;
	return true;
}

/* Returns the oldest event that was left to a leader, or NULL. */
static struct event *first_left(const struct claiming *c)
{
	return list_is_empty(&c->left) ? NULL : list_entry(c->left.next, struct event, wait_link);
}

static struct event *left_due(struct claiming *c)
{
	struct event *ev = first_left(c);
	int64_t least_ms = claim_is_ready(c->claim) ? OVERDUE_MS : ALONE_MS;

	if (!ev || now_ms(c) - ev->held_ms < least_ms || !is_overdue(c, ev))
		return NULL;
	hold_remove(ev);
	return ev;
}

static int64_t left_wait(const struct claiming *c)
{
	int64_t due = c->left_checked_ms + LEFT_CHECK_MS, least_ms;
	const struct event *ev = first_left(c);

	if (!ev)
		return -1;
	least_ms = claim_is_ready(c->claim) ? WATCH_LEADER_MS : ALONE_MS;
	if (ev->held_ms + least_ms > due)
		due = ev->held_ms + least_ms;
	return due > now_ms(c) ? due - now_ms(c) : 0;
}

/* While the channel is silent, the leader of the oldest copy may be dead. */
static void watch_leader(struct claiming *c)
{
	const struct event *ev = first_left(c);

	if (ev && claim_is_ready(c->claim) && now_ms(c) - c->told_ms >= WATCH_LEADER_MS &&
	    now_ms(c) - ev->held_ms >= WATCH_LEADER_MS)
		presence_wait_for_leader(claim_presence(c->claim), event_origin(ev));
}

static void check_held(struct claiming *c)
{
	int64_t now = now_ms(c);
	struct event *ev;

	while (may_ask(c) && (ev = hold_due(&c->hold, now)))
		on_due(c, ev);
	if (left_wait(c))
		return;
	c->left_checked_ms = now;
	watch_leader(c);
	while (may_ask(c) && (ev = left_due(c)))
		on_due(c, ev);
}

/* --- leases --- */

/* Sends one command for up to CHUNK events. */
typedef void claims_fn(struct claiming *c, struct event **evs, size_t n);
typedef bool claim_test(const struct claiming *c, const struct event *ev);

/* Calls act with the events of a state that have a claim and pass the test, if there is one. */
static void each_claim(struct claiming *c, enum event_state state, claim_test *test, claims_fn *act)
{
	struct event *chunk[CHUNK];
	size_t n = 0;

	list_each(node, after, &c->events->lists[state]) {
		struct event *ev = list_entry(node, struct event, link);

		if (!ev->is_claimed || (test && !test(c, ev)))
			continue;
		chunk[n++] = ev;
		if (n == CHUNK || FAULT_POINT("pipeline: few claims at once")) {
			act(c, chunk, n);
			n = 0;
		}
	}
	if (n)
		act(c, chunk, n);
}

static bool is_lease_due(const struct claiming *c, const struct event *ev)
{
	return now_ms(c) - ev->lease_ms >= ttl_ms(c) / 3;
}

static void renew(struct claiming *c, struct event **evs, size_t n)
{
	claim_renew(c->claim, evs, n);
}

/* Renews the claims of events that take long, so that the TTL can be short and a takeover fast. */
static void renew_leases(struct claiming *c)
{
	static const enum event_state states[] = {EV_BATCHED, EV_STORING, EV_BACKING_OFF, EV_REFUSED,
						  EV_DEAD_LETTERING};

	for (size_t i = 0; claim_is_ready(c->claim) && i < sizeof(states) / sizeof(*states); i++)
		each_claim(c, states[i], is_lease_due, renew);
}

/* --- a listener that cannot store --- */

static void release(struct claiming *c, struct event **evs, size_t n)
{
	claim_release(c->claim, evs, n);
}

static void release_and_hold(struct claiming *c, struct event **evs, size_t n)
{
	claim_release(c->claim, evs, n);
	for (size_t i = 0; i < n; i++) {
		evs[i]->held_ms = now_ms(c);
		evs[i]->asks = 0;
		hold(c, evs[i]);
	}
}

/* Releases the claims of events that were not sent to Postgres, or that it has refused: others can store them. Keeps
 * those that Postgres may be working on, since its locks would make the others wait. */
static void give_claims_back(struct claiming *c)
{
	each_claim(c, EV_BATCHED, NULL, release_and_hold);
	each_claim(c, EV_BACKING_OFF, NULL, release);
	each_claim(c, EV_REFUSED, NULL, release);
	if (!storing_is_sent(c->storing))
		each_claim(c, EV_STORING, NULL, release);
}

/* Returns the first event that does not wait for another event here, or NULL. */
static struct event *first_held(const struct claiming *c)
{
	list_each(node, after, &c->events->lists[EV_HELD]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->wait != WAIT_TURN)
			return ev;
	}
	return NULL;
}

/* Tries one of the events that are left to others, to see if Postgres works again. If there are none, the next one that
 * arrives is tried. */
static void probe(struct claiming *c)
{
	int64_t since_ms = now_ms(c) - c->probed_ms;
	struct event *ev;

	if (!store_view(storing_store(c->storing)).is_idle || c->events->counts[EV_BATCHED] || since_ms < PROBE_MS)
		return;
	ev = first_held(c);
	if (ev) {
		hold_remove(ev);
		event_send(c->events, ev);
		c->probed_ms = now_ms(c);
	} else if (since_ms >= PASSIVE_MS) {
		storing_forget_stall(c->storing);
	}
}

/* While Postgres stores some events and refuses others, those stay. */
static void watch(struct claiming *c)
{
	const struct event *oldest = events_oldest(c->events);

	if (c->is_passive) {
		log_spell_on(&c->passive, now_ms(c), "cannot store, leaving claims to other listeners",
			     storing_trouble(c->storing));
		give_claims_back(c);
	} else if (!c->is_draining && (!oldest || oldest->received_us / 1000 > c->passive.last_ms)) {
		log_spell_off(&c->passive, now_ms(c), "storing again, resuming claims");
	}
	storing_check_slowness(c->storing);
	if (presence_has_trouble(claim_presence(c->claim)) && now_ms(c) - c->warned_ms >= WARNED_MS) {
		c->warned_ms = now_ms(c); /* find out whether this one can */
		storing_hasten_checkin(c->storing);
	}
	presence_say(claim_presence(c->claim), storing_trouble(c->storing));
}

/* Checks if events can be stored, and begins to leave claims to others or ends it. Not while draining. */
static void check_stall(struct claiming *c)
{
	bool is_stalled = storing_is_unable(c->storing) && !c->is_draining;

	if (is_stalled == c->is_passive)
		return;
	c->is_passive = is_stalled;
	c->probed_ms = now_ms(c);
	presence_set_state(claim_presence(c->claim), is_stalled ? PEER_PASSIVE : PEER_WORKING);
	if (!is_stalled) { /* events left to others may have no other listener */
		list_each(node, after, &c->events->lists[EV_HELD])
			list_entry(node, struct event, link)->held_ms = now_ms(c);
		return;
	}
	watch(c);
}

void claiming_release_left(struct claiming *c)
{
	c->has_left = true;
	for (int state = 0; state < EVENT_STATES; state++)
		each_claim(c, (enum event_state)state, NULL, release);
}

/* --- ticks --- */

/* A listener far ahead of a storing leader takes the processor from it, and its copies have left the cache when the
 * channel settles them. While the channel is silent (Postgres is slow or away), only the memory budget limits reading.
 * A listener that leads a source reads on. */
bool claiming_is_far_ahead(struct claiming *c)
{
	size_t most = c->is_ahead ? AHEAD_MOST / 2 : AHEAD_MOST;

	c->is_ahead = c->events->deferred >= most && c->told_ms && now_ms(c) - c->told_ms < MOVING_MS &&
		      (!c->led_ms || now_ms(c) - c->led_ms > LEADING_MS);
	return c->is_ahead;
}

void claiming_turn(struct claiming *c)
{
	check_stall(c);
	if (c->is_passive)
		probe(c);
}

void claiming_tick(struct claiming *c)
{
	check_held(c);
	if (now_ms(c) >= c->renew_ms) {
		c->renew_ms = now_ms(c) + ttl_ms(c) / 9;
		renew_leases(c);
	}
	if (now_ms(c) >= c->watch_ms) {
		c->watch_ms = now_ms(c) + WATCH_MS;
		watch(c);
	}
}

static int64_t sooner(int64_t wait, int64_t other)
{
	return other >= 0 && other < wait ? other : wait;
}

int64_t claiming_wait(const struct claiming *c)
{
	int64_t due_ms = c->renew_ms < c->watch_ms ? c->renew_ms : c->watch_ms;
	int64_t wait = due_ms > now_ms(c) ? due_ms - now_ms(c) : 0;

	return may_ask(c) ? sooner(sooner(wait, hold_wait(&c->hold, now_ms(c))), left_wait(c)) : wait;
}

/* --- life --- */

static void hurry(struct claiming *c, enum event_state state)
{
	list_each(node, after, &c->events->lists[state]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->wait == WAIT_RETRY || ev->wait == WAIT_TURN)
			continue;
		hold_remove(ev);
		event_send(c->events, ev);
	}
}

void claiming_drain(struct claiming *c)
{
	c->is_passive = false;
	c->is_draining = true;
	presence_set_state(claim_presence(c->claim), PEER_DRAINING);
	hurry(c, EV_HELD);
	hurry(c, EV_BACKING_OFF);
}

void claiming_back_off(struct claiming *c, struct event *ev, enum wait wait, unsigned int step)
{
	event_set_wait(c->events, ev, wait);
	event_move(c->events, ev, EV_BACKING_OFF);
	hold_add(&c->hold, ev, now_ms(c), step);
}

static void on_foreign(void *arg, const char *sentence)
{
	struct claiming *c = arg;

	c->on.on_foreign(c->on.arg, sentence);
}

struct claiming *claiming_open(uv_loop_t *loop, const struct config *config, struct events *events,
			       struct storing *storing, const struct claiming_callbacks *callbacks)
{
	struct claiming *c = memory_calloc(1, sizeof(*c));
	const struct claim_callbacks on = {on_claimed, on_owner_gone, on_done, on_foreign, c};

	c->loop = loop;
	c->config = config;
	c->events = events;
	c->storing = storing;
	c->on = *callbacks;
	hold_init(&c->hold);
	list_init(&c->left);
	c->renew_ms = now_ms(c) + ttl_ms(c) / 9;
	c->watch_ms = now_ms(c) + WATCH_MS;
	c->claim = claim_open(loop, config, &on);
	return c;
}

struct claim *claiming_claim(const struct claiming *c)
{
	return c->claim;
}

void claiming_doubt_marks(struct claiming *c)
{
	c->doubts_marks = true;
}

void claiming_close(struct claiming *c, void (*done)(void *arg), void *arg)
{
	claim_close(c->claim, done, arg);
}

void claiming_free(struct claiming *c)
{
	free(c);
}
