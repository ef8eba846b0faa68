/* pipeline_claim.c owns what follows from the answers of Redis, and the waits of events that others have: who claims
 * and when, what a mark is worth, leases, and what a listener that cannot store leaves to others. */
#include "base/counters.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/fault_point.h"
#include "road/duplicates.h"
#include "road/line_minutes.h"
#include "road/pipeline_inside.h"
#include "road/presence.h"

#define CHUNK           512   /* claims of one script call */
#define OVERDUE_MS      350   /* after which an event that nobody has claimed is claimed, and the channel is silent */
#define ASK_LEFT_MS     200   /* between two of those that are claimed while the channel is silent */
#define ALONE_MS        1000  /* the same without Redis: then it goes to the store */
#define WATCH_LEADER_MS 100   /* for which a copy waits and the channel is silent before its leader is watched */
#define LEFT_CHECK_MS   50    /* between two checks of those that are older */
#define FETCH_CHAIN     12    /* prefetch distance, in events of a message */
#define DOUBTS          4     /* 50, 100, 200 and 400 ms for Postgres to tell its epoch */
#define ASK_STEP        3     /* hold steps until another's claim is asked for again: 400 ms, */
#define ASK_STEP_MOST   5     /* 800 ms, then 1.6 s, but at most the claim's TTL */
#define PROBE_MS        1000  /* between two tries of a listener that stalls */
#define REST_MS         10000 /* for so long one that has nothing to try rests */
#define TOLD_AGAIN_MS   120000
#define HOLD_TTLS       2 /* claim TTLs after which a held copy goes to the store */

/* --- claim and hold --- */

void pipeline_send_to_store(struct pipeline *p, struct event *ev)
{
	pipeline_set_wait(p, ev, WAIT_NONE);
	event_move(&p->events, ev, EV_BATCHED);
}

static unsigned int ask_step(const struct pipeline *p, const struct event *ev)
{
	unsigned int step = ASK_STEP + ev->asks;

	if (step > ASK_STEP_MOST)
		step = ASK_STEP_MOST;
	while (step > 0 && (int64_t)HOLD_FIRST_MS << step > ttl_ms(p))
		step--;
	return step;
}

void pipeline_hold(struct pipeline *p, struct event *ev)
{
	if (is_draining(p)) { /* no time to wait for somebody else */
		pipeline_send_to_store(p, ev);
		return;
	}
	if (!ev->held_ms)
		ev->held_ms = now_ms(p);
	pipeline_set_wait(p, ev, WAIT_OWNER);
	event_move(&p->events, ev, EV_HELD);
	hold_add(&p->hold, ev, now_ms(p), ask_step(p, ev));
	ev->asks += ev->asks < UINT16_MAX;
}

/* May a mark settle an event now, without asking the store first? */
static bool may_settle(const struct pipeline *p)
{
	return store_is_sure(p->first.store) && !p->doubts_marks;
}

/* A mark is knowledge of the epoch that the database was in when it last said so. If that is a while ago, it is asked
 * first (see store_first), and the event waits. It is given to the store where marks are not believed, and when 50 ms
 * later the store is neither sure nor at work. What is at work there may tell the epoch, and a batch would wait for it
 * as well: for up to 0.75 s the event does so instead of being in that batch. */
static void on_mark(struct pipeline *p, struct event *ev, enum outcome outcome)
{
	bool may_wait = ev->doubts < DOUBTS && !(ev->doubts && store_is_idle(p->first.store));

	if (may_settle(p)) {
		pipeline_settle(p, ev, outcome);
	} else if (p->doubts_marks || !may_wait || is_draining(p)) {
		pipeline_send_to_store(p, ev);
	} else {
		pipeline_set_wait(p, ev, WAIT_EPOCH);
		event_move(&p->events, ev, EV_HELD);
		if (!ev->held_ms)
			ev->held_ms = now_ms(p);
		hold_add(&p->hold, ev, now_ms(p), ev->doubts++);
	}
}

const struct done *pipeline_find_done(const struct pipeline *p, const struct id_hash *hash)
{
	return may_settle(p) ? done_channel_find(claim_channel(p->claim), hash) : NULL;
}

/* came_ms: when the listener that stored ev received it, 0 if unknown. */
static void count_copy(struct event *ev, int64_t came_ms)
{
	if (!ev->is_counted && came_ms)
		duplicates_seen(ev->id, ev->id_len, ev->came_us / 1000 - came_ms);
	else if (!ev->is_counted)
		duplicates_late(ev->id, ev->id_len, ev->received_us / 1000);
	ev->is_counted = true;
}

/* Another listener, which received ev at came_ms (0 if unknown), has committed it. ev is in EV_HELD, but not in a queue
 * of hold.c. */
static void settle_told(struct pipeline *p, struct event *ev, int64_t came_ms)
{
	counters.done_told++;
	if (came_ms)
		ev->won_ms = came_ms;
	count_copy(ev, came_ms);
	on_mark(p, ev, OUTCOME_DUPLICATE);
}

static void note_told(struct pipeline *p, const struct event *ev)
{
	p->told_ms = now_ms(p);
	if (ev->held_ms > p->arrived_ms)
		p->arrived_ms = ev->held_ms;
}

/* Settles the copies of these events. Others' copies have not arrived yet, or are not held: they stay known. */
size_t pipeline_on_done(void *arg, struct done *events, size_t n)
{
	struct pipeline *p = arg;
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		struct event *ev;

		if (i + FETCH_CHAIN < n)
			events_fetch_chain(&p->events, &events[i + FETCH_CHAIN].hash);
		if (i + EVENT_FETCH < n) {
			events_fetch_event(&p->events, &events[i + EVENT_FETCH].hash);
			line_minutes_fetch(&line_minutes, events[i + EVENT_FETCH].hash.half[0]);
		}
		ev = event_find_hash(&p->events, &events[i].hash);
		if (!ev || ev->state != EV_HELD) {
			events[left++] = events[i];
			continue;
		}
		if (ev->wait == WAIT_LEADER)
			note_told(p, ev);
		hold_remove(ev);
		if (!may_settle(p)) {
			events[left++] = events[i];
			pipeline_set_wait(p, ev, WAIT_EPOCH);
			hold_add(&p->hold, ev, now_ms(p), 0);
			continue;
		}
		settle_told(p, ev, events[i].came_ms);
	}
	return left;
}

/* The wait of ev is over, or has to go on in a listener that rests. Without Redis ev goes to the store. */
static void claim_again(struct pipeline *p, struct event *ev)
{
	if (is_resting(p) && claim_is_ready(p->claim)) {
		pipeline_hold(p, ev);
		return;
	}
	event_move(&p->events, ev, EV_CLAIMING);
	pipeline_take_claim(p, ev);
}

/* ev, which is held, is claimed. */
static void claim_held(struct pipeline *p, struct event *ev)
{
	hold_remove(ev);
	pipeline_set_wait(p, ev, WAIT_NONE);
	claim_again(p, ev);
}

/* Claims what was left to a leader that leads no more. */
static void lead_anew(struct pipeline *p)
{
	if (is_resting(p) || !claim_is_ready(p->claim))
		return;
	list_each(node, after, &p->left) {
		struct event *ev = list_entry(node, struct event, wait_link);

		if (!claim_has_other_leader(p->claim, event_origin(ev)))
			claim_held(p, ev);
	}
}

/* Nobody had the claim of ev, which waited for somebody: the leader has not received it yet or never will, or the owner
 * of the claim died or gave it back. */
static void note_takeover(struct pipeline *p, struct event *ev)
{
	if (ev->wait == WAIT_OWNER)
		counters.claims_taken_over++;
	if (ev->wait != WAIT_LEADER)
		return;
	pipeline_set_wait(p, ev, WAIT_NONE);
	counters.deferred_in_vain++;
	if (claim_has_other_leader(p->claim, event_origin(ev))) {
		presence_suspect_leader(claim_presence(p->claim), event_origin(ev));
		lead_anew(p);
	}
}

/* A listener that rests leaves events to the others, also where it has the claim. */
static void on_mine(struct pipeline *p, struct event *ev)
{
	counters.claims_won++;
	note_takeover(p, ev);
	if (!is_resting(p)) {
		pipeline_send_to_store(p, ev);
		return;
	}
	claim_release(p->claim, &ev, 1);
	pipeline_hold(p, ev);
}

/* A source sends again what has long been stored. The others have left their copies to its leader, who tells them. A
 * mark has the minute only, so what came just now is not told: others count how late copies are. */
static void tell_again(struct pipeline *p, const struct event *ev)
{
	bool is_at_once = ev->wait == WAIT_NONE && !ev->asks;

	if (is_at_once && ev->won_ms && ev->came_us / 1000 - ev->won_ms > TOLD_AGAIN_MS)
		done_channel_add(claim_channel(p->claim), &(const struct done){ev->id_hash, ev->won_ms});
}

void pipeline_on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	struct pipeline *p = arg;

	if (ev->wait == WAIT_LEADER)
		p->left_free_ms = result == CLAIM_OTHER ? 0 : now_ms(p);
	switch (result) {
	case CLAIM_MINE:
		on_mine(p, ev);
		return;
	case CLAIM_OTHER: /* being stored elsewhere, which is not yet stored */
		counters.claims_lost += ev->wait != WAIT_OWNER;
		counters.holds += !ev->held_ms;
		pipeline_hold(p, ev);
		return;
	case CLAIM_DONE:
		counters.claims_done++;
		tell_again(p, ev);
		on_mark(p, ev, OUTCOME_DUPLICATE);
		return;
	case CLAIM_DEAD:
		counters.claims_done++;
		on_mark(p, ev, OUTCOME_REJECTED);
		return;
	case CLAIM_ABSENT:
	case CLAIM_UNKNOWN: /* Redis is gone: the unique key decides instead */
		counters.claims_skipped++;
		pipeline_send_to_store(p, ev);
		return;
	}
}

void pipeline_take_claim(struct pipeline *p, struct event *ev)
{
	if (claim_take(p->claim, ev)) {
		counters.claims_skipped++;
		pipeline_send_to_store(p, ev);
	}
}

static void leave(struct pipeline *p, struct event *ev)
{
	counters.deferred++;
	ev->held_ms = now_ms(p);
	event_move(&p->events, ev, EV_HELD);
	if (done_channel_find(claim_channel(p->claim), &ev->id_hash)) { /* by then Postgres has mostly told its epoch */
		pipeline_set_wait(p, ev, WAIT_EPOCH);
		hold_add(&p->hold, ev, now_ms(p), 0);
	} else {
		pipeline_set_wait(p, ev, WAIT_LEADER);
		list_append(&p->left, &ev->wait_link);
	}
}

/* The leader of a source claims its events at once, and the others leave them to it: N claims for one event, of which
 * N - 1 are in vain, would cost Redis and everybody most of their time. An event that nobody else gets, or whose
 * producer waits for an ack, is ours: it does not wait for anyone. */
void pipeline_claim_or_defer(struct pipeline *p, struct event *ev, bool is_ours)
{
	if (ev->order && !order_begin(ev)) {
		ev->is_ours = is_ours;
		ev->held_ms = now_ms(p);
		pipeline_set_wait(p, ev, WAIT_TURN);
		event_move(&p->events, ev, EV_HELD);
		return;
	}
	if (is_ours)
		pace_await(&p->pace, now_ms(p));
	if (is_resting(p) && claim_is_ready(p->claim)) {
		pipeline_hold(p, ev);
	} else if (is_ours || is_draining(p)) {
		pipeline_take_claim(p, ev);
	} else if (claim_has_other_leader(p->claim, event_origin(ev)) == FAULT_POINT("pipeline: the wrong one leads")) {
		p->led_ms = now_ms(p);
		pipeline_take_claim(p, ev);
	} else {
		leave(p, ev);
	}
}

void pipeline_take_turns(struct pipeline *p)
{
	list_each(node, after, &p->order.due) {
		struct event *ev = list_entry(node, struct event, wait_link);

		list_remove(node);
		ev->held_ms = 0;
		pipeline_set_wait(p, ev, WAIT_NONE);
		event_move(&p->events, ev, EV_CLAIMING);
		pipeline_claim_or_defer(p, ev, ev->is_ours);
	}
}

void pipeline_lead(struct pipeline *p, struct event *ev, const char *source)
{
	if (ev->wait == WAIT_LEADER && ev->state == EV_HELD && !is_resting(p) && claim_is_ready(p->claim) &&
	    !claim_has_other_leader(p->claim, source))
		claim_held(p, ev);
}

static void inherit(struct pipeline *p, uint16_t owner, struct event **evs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		event_move(&p->events, evs[i], EV_CLAIMING);
	counters.claims_inherited += n;
	if (!n || claim_inherit(p->claim, owner, evs, n) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		pipeline_on_claimed(p, evs[i], CLAIM_UNKNOWN);
}

/* What was held for a dead owner is not held until its claims have expired. Whose claims are already another's are held
 * again, for that one. */
void pipeline_on_owner_gone(void *arg, uint16_t owner)
{
	struct pipeline *p = arg;
	struct event *chunk[CHUNK];
	size_t n = 0;

	if (is_resting(p))
		return;
	list_each(node, after, &p->events.lists[EV_HELD]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->owner != owner)
			continue;
		hold_remove(ev);
		chunk[n++] = ev;
		if (n == CHUNK || FAULT_POINT("pipeline: few claims are inherited at once")) {
			inherit(p, owner, chunk, n);
			n = 0;
		}
	}
	inherit(p, owner, chunk, n);
	lead_anew(p);
}

/* Postgres refused ev: any listener may try now. This one claims it again only after the longest wait of the others:
 * what it cannot store, another may be able to. */
static void give_back(struct pipeline *p, struct event *ev)
{
	claim_release(p->claim, &ev, 1);
	ev->held_ms = now_ms(p);
	ev->asks = ASK_STEP_MOST;
	if (claim_is_ready(p->claim))
		pipeline_hold(p, ev);
	else
		pipeline_send_to_store(p, ev);
}

/* The backoff of ev is over. Its claim may have been given back meanwhile, and its mark may say by now what became of
 * it. */
static void try_again(struct pipeline *p, struct event *ev)
{
	if (ev->wait == WAIT_RETRY) {
		give_back(p, ev);
		return;
	}
	if (pipeline_try_other(p, ev))
		return;
	if (ev->is_claimed)
		pipeline_send_to_store(p, ev);
	else
		claim_again(p, ev);
}

/* The wait of ev is over: it is settled, claimed, tried again, or sent to the store. */
static void on_due(struct pipeline *p, struct event *ev)
{
	const struct done *done;

	if (ev->state == EV_BACKING_OFF) {
		try_again(p, ev);
	} else if (now_ms(p) - ev->held_ms >= HOLD_TTLS * ttl_ms(p) || FAULT_POINT("pipeline: held for long")) {
		counters.hold_timeouts++;
		pipeline_send_to_store(p, ev);
	} else if ((done = done_channel_find(claim_channel(p->claim), &ev->id_hash))) {
		settle_told(p, ev, done->came_ms);
	} else {
		claim_again(p, ev);
	}
}

/* Is it time to claim ev, which was left to a leader? If the channel moves, it is overdue by position: the channel has
 * told of a copy that arrived here long after it. By the clock alone, everything that a slow leader is about to store
 * would be asked for. If the channel is silent, one is claimed now and then, and the others if nobody had that one. */
static bool is_overdue(struct pipeline *p, const struct event *ev)
{
	int64_t now = now_ms(p);

	if (!claim_is_ready(p->claim) || !done_channel_is_heard(claim_channel(p->claim)) ||
	    now - ev->held_ms >= HOLD_TTLS * ttl_ms(p))
		return true;
	if (now - p->told_ms < OVERDUE_MS)
		return ev->held_ms < p->arrived_ms - OVERDUE_MS;
	if (p->left_free_ms && now - p->left_free_ms < ASK_LEFT_MS)
		return true;
	if (now - p->left_probed_ms < ASK_LEFT_MS)
		return false;
	p->left_probed_ms = now;
	return true;
}

/* The event that was left to a leader first; NULL if none was. */
static struct event *first_left(const struct pipeline *p)
{
	return list_is_empty(&p->left) ? NULL : list_entry(p->left.next, struct event, wait_link);
}

static struct event *left_due(struct pipeline *p)
{
	struct event *ev = first_left(p);
	int64_t least_ms = claim_is_ready(p->claim) ? OVERDUE_MS : ALONE_MS;

	if (!ev || now_ms(p) - ev->held_ms < least_ms || !is_overdue(p, ev))
		return NULL;
	hold_remove(ev);
	return ev;
}

int64_t pipeline_left_wait(const struct pipeline *p)
{
	int64_t due = p->left_checked_ms + LEFT_CHECK_MS, least_ms;
	const struct event *ev = first_left(p);

	if (!ev)
		return -1;
	least_ms = claim_is_ready(p->claim) ? WATCH_LEADER_MS : ALONE_MS;
	if (ev->held_ms + least_ms > due)
		due = ev->held_ms + least_ms;
	return due > now_ms(p) ? due - now_ms(p) : 0;
}

/* While the channel is silent, the leader of the oldest copy may be dead. */
static void watch_leader(struct pipeline *p)
{
	const struct event *ev = first_left(p);

	if (ev && claim_is_ready(p->claim) && now_ms(p) - p->told_ms >= WATCH_LEADER_MS &&
	    now_ms(p) - ev->held_ms >= WATCH_LEADER_MS)
		presence_wait_for_leader(claim_presence(p->claim), event_origin(ev));
}

void pipeline_check_held(struct pipeline *p)
{
	int64_t now = now_ms(p);
	struct event *ev;

	while ((ev = hold_due(&p->hold, now)))
		on_due(p, ev);
	if (pipeline_left_wait(p))
		return;
	p->left_checked_ms = now;
	watch_leader(p);
	while ((ev = left_due(p)))
		on_due(p, ev);
}

/* --- leases --- */

/* Up to CHUNK events, whose claims are for one command. */
typedef void claims_fn(struct pipeline *p, struct event **evs, size_t n);
typedef bool claim_test(const struct pipeline *p, const struct event *ev);

/* Calls act with those events of a state that have a claim and pass the test, if there is one. */
static void each_claim(struct pipeline *p, enum event_state state, claim_test *test, claims_fn *act)
{
	struct event *chunk[CHUNK];
	size_t n = 0;

	list_each(node, after, &p->events.lists[state]) {
		struct event *ev = list_entry(node, struct event, link);

		if (!ev->is_claimed || (test && !test(p, ev)))
			continue;
		chunk[n++] = ev;
		if (n == CHUNK || FAULT_POINT("pipeline: few claims at once")) {
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
void pipeline_renew_leases(struct pipeline *p)
{
	static const enum event_state states[] = {EV_BATCHED, EV_STORING, EV_BACKING_OFF, EV_REFUSED,
						  EV_DEAD_LETTERING};

	for (size_t i = 0; claim_is_ready(p->claim) && i < sizeof(states) / sizeof(*states); i++)
		each_claim(p, states[i], is_lease_due, renew);
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
		evs[i]->asks = 0;
		pipeline_hold(p, evs[i]);
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

/* The first of those that do not wait for an event that is at work here; NULL: there is none. */
static struct event *first_held(const struct pipeline *p)
{
	list_each(node, after, &p->events.lists[EV_HELD]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->wait != WAIT_TURN)
			return ev;
	}
	return NULL;
}

/* How Postgres is, one of the events that are left to others finds out. Without any, one that comes will. */
void pipeline_probe(struct pipeline *p)
{
	int64_t since_ms = now_ms(p) - p->probed_ms;
	struct event *ev;

	if (!store_is_idle(p->first.store) || p->events.counts[EV_BATCHED] || since_ms < PROBE_MS)
		return;
	ev = first_held(p);
	if (ev) {
		hold_remove(ev);
		pipeline_send_to_store(p, ev);
		p->probed_ms = now_ms(p);
	} else if (since_ms >= REST_MS) {
		stall_stored(&p->stall);
	}
}

/* Something to store, which Postgres says nothing of. */
static bool has_rows(const struct pipeline *p)
{
	bool is_at_work = p->events.counts[EV_STORING] && !store_is_idle(p->first.store);

	return (p->events.counts[EV_BATCHED] || is_at_work) && !store_is_searching(p->first.store);
}

/* Who cannot finish does not begin. */
void pipeline_check_stall(struct pipeline *p)
{
	bool is_stalled = stall_check(&p->stall, has_rows(p), now_ms(p)) && !is_draining(p);

	if (is_stalled == is_resting(p))
		return;
	pipeline_set_life(p, is_stalled ? LIFE_RESTING : LIFE_WORKING);
	p->probed_ms = now_ms(p);
	presence_set_state(claim_presence(p->claim), is_stalled ? PEER_PASSIVE : PEER_WORKING);
	if (!is_stalled) { /* events left to others were not held: nobody may have had them */
		list_each(node, after, &p->events.lists[EV_HELD])
			list_entry(node, struct event, link)->held_ms = now_ms(p);
		return;
	}
	log_spell_on(&p->rests, now_ms(p), "cannot store, leaving claims to other listeners", pipeline_trouble(p));
	give_claims_back(p);
}

/* The turn of the loop that follows finds out. */
void pipeline_watch(struct pipeline *p)
{
	if (is_resting(p))
		give_claims_back(p);
	else
		log_spell_off(&p->rests, now_ms(p), "storing again, resuming claims");
	pipeline_check_slowness(p);
	presence_say(claim_presence(p->claim), pipeline_trouble(p));
}

const char *pipeline_trouble(const struct pipeline *p)
{
	const char *why;
	bool is_ready = store_is_ready(p->first.store, &why);

	if (is_ready)
		why = is_resting(p) ? store_trouble(p->first.store) : NULL;
	return !why ? "" : *why ? why : is_ready ? "nothing was stored" : "connecting";
}

const char *pipeline_hazards(const struct pipeline *p)
{
	return store_hazards(p->first.store);
}

const char *pipeline_holder(const struct pipeline *p)
{
	return store_holder(p->first.store);
}

void pipeline_release_left(struct pipeline *p)
{
	for (int state = 0; state < EVENT_STATES; state++)
		each_claim(p, (enum event_state)state, NULL, release);
}
