/* claiming.c owns what follows from the answers of Redis, and the waits of events that others have: who claims
 * and when, what a mark is worth, leases, and what a listener that cannot store leaves to others. */
#include "road/claiming.h"

#include "base/counters.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "event/duplicates.h"
#include "event/line_minutes.h"
#include "fleet/presence.h"
#include "road/settling.h"

#define AHEAD_MOST      16384 /* events left to others at which one that leads no source stops reading */
#define MOVING_MS       350   /* since the done channel told of a copy: it moves, */
#define LEADING_MS      1000  /* and since this listener claimed as a leader: it leads */
#define WATCH_MS        250   /* between two looks whether rows can be stored */
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

static int64_t now_ms(const struct claiming *c)
{
	return (int64_t)uv_now(c->loop);
}

static int64_t ttl_ms(const struct claiming *c)
{
	return c->config->claim_ttl_s * 1000;
}

/* --- claim and hold --- */

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
	if (c->is_draining) { /* no time to wait for somebody else */
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

/* May a mark settle an event now, without asking the store first? */
static bool may_settle(const struct claiming *c)
{
	return store_is_sure(storing_store(c->storing)) && !c->doubts_marks;
}

/* A mark is knowledge of the epoch that the database was in when it last said so. If that is a while ago, it is asked
 * first (see store_first), and the event waits. It is given to the store where marks are not believed, and when 50 ms
 * later the store is neither sure nor at work. What is at work there may tell the epoch, and a batch would wait for it
 * as well: for up to 0.75 s the event does so instead of being in that batch. */
static void on_mark(struct claiming *c, struct event *ev, enum outcome outcome)
{
	bool may_wait = ev->doubts < DOUBTS && !(ev->doubts && store_view(storing_store(c->storing)).is_idle);

	if (may_settle(c)) {
		pipeline_settle(c->pipeline, ev, outcome);
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
static void settle_told(struct claiming *c, struct event *ev, int64_t came_ms)
{
	counters.done_told++;
	if (came_ms)
		ev->won_ms = came_ms;
	count_copy(ev, came_ms);
	on_mark(c, ev, OUTCOME_DUPLICATE);
}

static void note_told(struct claiming *c, const struct event *ev)
{
	c->told_ms = now_ms(c);
	if (ev->held_ms > c->arrived_ms)
		c->arrived_ms = ev->held_ms;
}

/* Settles the copies of these events. Others' copies have not arrived yet, or are not held: they stay known. */
static size_t on_done(void *arg, struct done *events, size_t n)
{
	struct claiming *c = arg;
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
		if (ev->wait == WAIT_TURN && !may_settle(c)) { /* it may not be stored after all */
			events[left++] = events[i];
			continue;
		}
		hold_remove(ev);
		if (!may_settle(c)) {
			events[left++] = events[i];
			event_set_wait(c->events, ev, WAIT_EPOCH);
			hold_add(&c->hold, ev, now_ms(c), 0);
			continue;
		}
		settle_told(c, ev, events[i].came_ms);
	}
	return left;
}

/* The wait of ev is over, or has to go on in a listener that rests. Without Redis ev goes to the store. */
static void claim_again(struct claiming *c, struct event *ev)
{
	if (c->is_resting && claim_is_ready(c->claim)) {
		hold(c, ev);
		return;
	}
	event_move(c->events, ev, EV_CLAIMING);
	claiming_claim_now(c, ev);
}

/* ev, which is held, is claimed. */
static void claim_held(struct claiming *c, struct event *ev)
{
	hold_remove(ev);
	event_set_wait(c->events, ev, WAIT_NONE);
	claim_again(c, ev);
}

/* Claims what was left to a leader that leads no more. */
static void lead_anew(struct claiming *c)
{
	if (c->is_resting || !claim_is_ready(c->claim))
		return;
	list_each(node, after, &c->left) {
		struct event *ev = list_entry(node, struct event, wait_link);

		if (!claim_has_other_leader(c->claim, event_origin(ev)))
			claim_held(c, ev);
	}
}

/* Nobody had the claim of ev, which waited for somebody: the leader has not received it yet or never will, or the owner
 * of the claim died or gave it back. */
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

/* A listener that rests leaves events to the others, also where it has the claim. */
static void on_mine(struct claiming *c, struct event *ev)
{
	counters.claims_won++;
	note_takeover(c, ev);
	if (!c->is_resting) {
		event_send(c->events, ev);
		return;
	}
	claim_release(c->claim, &ev, 1);
	hold(c, ev);
}

/* A source sends again what has long been stored. The others have left their copies to its leader, who tells them. A
 * mark has the minute only, so what came just now is not told: others count how late copies are. */
static void tell_again(struct claiming *c, const struct event *ev)
{
	bool is_at_once = ev->wait == WAIT_NONE && !ev->asks;

	if (is_at_once && ev->won_ms && ev->came_us / 1000 - ev->won_ms > TOLD_AGAIN_MS)
		done_channel_add(claim_channel(c->claim), &(const struct done){ev->id_hash, ev->won_ms});
}

static void on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	struct claiming *c = arg;

	if (ev->wait == WAIT_LEADER)
		c->left_free_ms = result == CLAIM_OTHER ? 0 : now_ms(c);
	switch (result) {
	case CLAIM_MINE:
		on_mine(c, ev);
		return;
	case CLAIM_OTHER: /* being stored elsewhere, which is not yet stored */
		counters.claims_lost += ev->wait != WAIT_OWNER;
		counters.holds += !ev->held_ms;
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
	if (claim_take(c->claim, ev)) {
		counters.claims_skipped++;
		event_send(c->events, ev);
	}
}

static void leave(struct claiming *c, struct event *ev)
{
	counters.deferred++;
	ev->held_ms = now_ms(c);
	event_move(c->events, ev, EV_HELD);
	if (done_channel_find(claim_channel(c->claim), &ev->id_hash)) { /* by then Postgres has mostly told its epoch */
		event_set_wait(c->events, ev, WAIT_EPOCH);
		hold_add(&c->hold, ev, now_ms(c), 0);
	} else {
		event_set_wait(c->events, ev, WAIT_LEADER);
		list_append(&c->left, &ev->wait_link);
	}
}

/* The leader of a source claims its events at once, and the others leave them to it: N claims for one event, of which
 * N - 1 are in vain, would cost Redis and everybody most of their time. An event that nobody else gets, or whose
 * producer waits for an ack, is ours: it does not wait for anyone. */
void claiming_take(struct claiming *c, struct event *ev, bool is_ours)
{
	if (is_ours)
		storing_await(c->storing);
	if (c->is_resting && claim_is_ready(c->claim)) {
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
	if (ev->wait == WAIT_LEADER && ev->state == EV_HELD && !c->is_resting && claim_is_ready(c->claim) &&
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

/* What was held for a dead owner is not held until its claims have expired. Whose claims are already another's are held
 * again, for that one. */
static void on_owner_gone(void *arg, uint16_t owner)
{
	struct claiming *c = arg;
	struct event *chunk[CHUNK];
	size_t n = 0;

	if (c->is_resting)
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

/* Postgres refused ev: any listener may try now. This one claims it again only after the longest wait of the others:
 * what it cannot store, another may be able to. */
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

/* The backoff of ev is over. Its claim may have been given back meanwhile, and its mark may say by now what became of
 * it. */
static void try_again(struct claiming *c, struct event *ev)
{
	if (ev->wait == WAIT_RETRY) {
		give_back(c, ev);
		return;
	}
	if (pipeline_try_other(c->pipeline, ev))
		return;
	if (ev->is_claimed)
		event_send(c->events, ev);
	else
		claim_again(c, ev);
}

/* The wait of ev is over: it is settled, claimed, tried again, or sent to the store. */
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

/* Is it time to claim ev, which was left to a leader? If the channel moves, it is overdue by position: the channel has
 * told of a copy that arrived here long after it. By the clock alone, everything that a slow leader is about to store
 * would be asked for. If the channel is silent, one is claimed now and then, and the others if nobody had that one. */
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

/* The event that was left to a leader first; NULL if none was. */
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

	while ((ev = hold_due(&c->hold, now)))
		on_due(c, ev);
	if (left_wait(c))
		return;
	c->left_checked_ms = now;
	watch_leader(c);
	while ((ev = left_due(c)))
		on_due(c, ev);
}

/* --- leases --- */

/* Up to CHUNK events, whose claims are for one command. */
typedef void claims_fn(struct claiming *c, struct event **evs, size_t n);
typedef bool claim_test(const struct claiming *c, const struct event *ev);

/* Calls act with those events of a state that have a claim and pass the test, if there is one. */
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

/* Work that takes long keeps its claims: the TTL can be short, and a takeover fast. */
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

/* Others can store what Postgres has not got from here, or has refused. What it may be at work on would make them
 * wait for its locks. */
static void give_claims_back(struct claiming *c)
{
	each_claim(c, EV_BATCHED, NULL, release_and_hold);
	each_claim(c, EV_BACKING_OFF, NULL, release);
	each_claim(c, EV_REFUSED, NULL, release);
	if (!storing_is_sent(c->storing))
		each_claim(c, EV_STORING, NULL, release);
}

/* The first of those that do not wait for an event that is at work here; NULL: there is none. */
static struct event *first_held(const struct claiming *c)
{
	list_each(node, after, &c->events->lists[EV_HELD]) {
		struct event *ev = list_entry(node, struct event, link);

		if (ev->wait != WAIT_TURN)
			return ev;
	}
	return NULL;
}

/* How Postgres is, one of the events that are left to others finds out. Without any, one that comes will. */
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
	} else if (since_ms >= REST_MS) {
		storing_forget_stall(c->storing);
	}
}

/* Who cannot finish does not begin. */
static void check_stall(struct claiming *c)
{
	bool is_stalled = storing_is_unable(c->storing) && !c->is_draining;

	if (is_stalled == c->is_resting)
		return;
	c->is_resting = is_stalled;
	c->probed_ms = now_ms(c);
	presence_set_state(claim_presence(c->claim), is_stalled ? PEER_PASSIVE : PEER_WORKING);
	if (!is_stalled) { /* events left to others were not held: nobody may have had them */
		list_each(node, after, &c->events->lists[EV_HELD])
			list_entry(node, struct event, link)->held_ms = now_ms(c);
		return;
	}
	log_spell_on(&c->rests, now_ms(c), "cannot store, leaving claims to other listeners",
		     storing_trouble(c->storing));
	give_claims_back(c);
}

/* The turn of the loop that follows finds out. */
static void watch(struct claiming *c)
{
	if (c->is_resting)
		give_claims_back(c);
	else
		log_spell_off(&c->rests, now_ms(c), "storing again, resuming claims");
	storing_check_slowness(c->storing);
	presence_say(claim_presence(c->claim), storing_trouble(c->storing));
}

void claiming_release_left(struct claiming *c)
{
	for (int state = 0; state < EVENT_STATES; state++)
		each_claim(c, (enum event_state)state, NULL, release);
}

/* --- ticks --- */

/* A listener far ahead of a leader that stores takes the processor from it, and its copies have left the cache when the
 * channel tells of them. While the channel is silent (Postgres is slow or away), only the memory budget bounds it, and
 * one that leads a source itself reads on. */
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
	if (c->is_resting)
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

	return sooner(sooner(wait, hold_wait(&c->hold, now_ms(c))), left_wait(c));
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
	c->is_resting = false;
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

	pipeline_on_foreign(c->pipeline, sentence);
}

void claiming_open(struct claiming *c, uv_loop_t *loop, const struct config *config, struct events *events,
		   struct storing *storing, struct pipeline *pipeline)
{
	const struct claim_callbacks on = {on_claimed, on_owner_gone, on_done, on_foreign, c};

	*c = (struct claiming){
		.loop = loop, .config = config, .events = events, .storing = storing, .pipeline = pipeline};
	hold_init(&c->hold);
	list_init(&c->left);
	c->renew_ms = now_ms(c) + ttl_ms(c) / 9;
	c->watch_ms = now_ms(c) + WATCH_MS;
	c->claim = claim_open(loop, config, &on);
}
