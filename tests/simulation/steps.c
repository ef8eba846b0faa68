/* steps.c records the steps of single events: which answer led from which state to which, and whether the event had a
 * row or a letter by then. tests/simulation/steps compares them with the steps of tests/model/wsonce.pml. Ids with
 * several messages are left out, because the model has one message per id. With a profile, each message has two forms:
 * the producer's and the feed's. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claim/claim.h"
#include "event/event.h"
#include "store/store_kind.h"
#include "feeds.h"
#include "world.h"

#define NONE EVENT_STATES /* not received yet, or already settled */

enum asked { RECEIVED, CLAIMED, STORED, DEAD_LETTERED, MOVED, ASKED };

static const char *const asked_names[ASKED] = {"received", "on_claimed", "on_stored", "on_dead_lettered", "-"};
static const char *const claim_answers[] = {"MINE", "OTHER", "DONE", "DEAD", "ABSENT", "UNKNOWN"};
static const char *const store_answers[] = {"INSERTED", "PRESENT",  "LATER",  "BLOCKED",
					    "REFUSED",  "HOPELESS", "UNKNOWN"};
static const char *const dead_letter_answers[] = {"DEAD_LETTERED", "NOT_DEAD_LETTERED", "HAS_ROW"};

#define ANSWERS 8

static uint64_t counts[ASKED][ANSWERS][NONE + 1][NONE + 1][4];

/* The current callback. */
static struct {
	bool is_on;
	struct event *ev;
	bool is_over;
	int event;
} at_hand;

static bool is_receiving;

static int event_of(const struct event *ev)
{
	const struct plan *p = world_plan();
	int event = ev->id_len > 2 ? atoi(sim_copy(ev->id + 2, ev->id_len - 2u)) : -1, messages = 0;

	for (int i = 0; event >= 0 && i < p->message_count; i++)
		messages += p->messages[i].event == event;
	return messages == 1 && !feeds_profile() ? event : -1;
}

static void keep(enum asked asked, unsigned int answer, int from, int to, int event)
{
	if (event >= 0)
		counts[asked][answer][from][to][checker_knows(event)]++;
}

static int from_hand(struct event *ev)
{
	at_hand.is_on = true;
	at_hand.is_over = false;
	at_hand.ev = ev;
	at_hand.event = event_of(ev);
	return (int)ev->state;
}

static void end_hand(enum asked asked, unsigned int answer, int from)
{
	keep(asked, answer, from, at_hand.is_over ? NONE : (int)at_hand.ev->state, at_hand.event);
	at_hand.is_on = false;
}

/* --- outside of callbacks --- */

void steps_move(const struct event *ev, enum event_state to)
{
	if (at_hand.is_on && at_hand.ev == ev)
		return;
	if (!at_hand.is_on)
		keep(MOVED, 0, (int)ev->state, (int)to, event_of(ev));
}

void __real_event_finish(struct events *es, struct event *ev, enum outcome outcome);
void __wrap_event_finish(struct events *es, struct event *ev, enum outcome outcome);
void __wrap_event_finish(struct events *es, struct event *ev, enum outcome outcome)
{
	at_hand.is_over |= at_hand.is_on && at_hand.ev == ev;
	__real_event_finish(es, ev, outcome);
}

/* --- receiving --- */

struct event *__real_event_new(struct events *es, enum event_state state, const char *message, size_t len,
			       const struct envelope_view *view, struct sender *sender, int64_t now_us);
struct event *__wrap_event_new(struct events *es, enum event_state state, const char *message, size_t len,
			       const struct envelope_view *view, struct sender *sender, int64_t now_us);
struct event *__wrap_event_new(struct events *es, enum event_state state, const char *message, size_t len,
			       const struct envelope_view *view, struct sender *sender, int64_t now_us)
{
	struct event *ev = __real_event_new(es, state, message, len, view, sender, now_us);

	if (state == EV_CLAIMING && is_receiving)
		from_hand(ev);
	return ev;
}

void steps_receiving(void)
{
	is_receiving = true;
}

void steps_received(void)
{
	is_receiving = false;
	if (at_hand.is_on)
		end_hand(RECEIVED, 0, NONE);
}

/* --- the answers of Redis and Postgres --- */

static struct claim_callbacks claim_on;
static struct store_callbacks store_on;

static void on_claimed(void *arg, struct event *ev, enum claim_result result)
{
	int from = from_hand(ev);

	claim_on.on_claimed(arg, ev, result);
	end_hand(CLAIMED, result, from);
}

static void on_stored(void *arg, struct event *ev, enum store_result result, const char *why)
{
	int from = from_hand(ev);

	store_on.on_stored(arg, ev, result, why);
	end_hand(STORED, result, from);
}

static void on_dead_lettered(void *arg, struct event *ev, enum store_dead_letter dead_letter)
{
	int from = from_hand(ev);

	store_on.on_dead_lettered(arg, ev, dead_letter);
	end_hand(DEAD_LETTERED, dead_letter, from);
}

/* All listeners share the callback functions; arg says which listener it is. */
struct claim *__real_claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *on);
struct claim *__wrap_claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *on);
struct claim *__wrap_claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *on)
{
	struct claim_callbacks ours = *on;

	claim_on = *on;
	ours.on_claimed = on_claimed;
	return __real_claim_open(loop, config, &ours);
}

/* Histories do not use SQLite. */
const struct store_kind store_sqlite;

struct store *__real_store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *on);
struct store *__wrap_store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *on);
struct store *__wrap_store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *on)
{
	struct store_callbacks ours = *on;

	store_on = *on;
	ours.on_stored = on_stored;
	ours.on_dead_lettered = on_dead_lettered;
	return __real_store_open(loop, config, &ours);
}

/* --- the list --- */

void steps_start(void)
{
	at_hand.is_on = false;
}

static const char *answer_name(int asked, int answer)
{
	return asked == CLAIMED         ? claim_answers[answer]
	       : asked == STORED        ? store_answers[answer]
	       : asked == DEAD_LETTERED ? dead_letter_answers[answer]
					: "-";
}

static const char *state_name(int state)
{
	return state == NONE ? "none" : event_state_name((enum event_state)state);
}

void steps_print(FILE *out)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0][0][0][0][0]); i++) {
		uint64_t count = (&counts[0][0][0][0][0])[i];
		size_t knows = i % 4, to = i / 4 % (NONE + 1), from = i / 4 / (NONE + 1) % (NONE + 1);
		size_t answer = i / 4 / (NONE + 1) / (NONE + 1) % ANSWERS;
		size_t asked = i / 4 / (NONE + 1) / (NONE + 1) / ANSWERS;

		if (count)
			fprintf(out, "step %s %s %s %s %zu %zu %llu\n", asked_names[asked],
				answer_name((int)asked, (int)answer), state_name((int)from), state_name((int)to),
				knows & 1, knows >> 1, (unsigned long long)count);
	}
}
