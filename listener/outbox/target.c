/* target.c decides what an answer means and owns the state of a target. delivery.c makes the requests, relay.c handles
 * the rows. */
#include "outbox/target.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/memory.h"

#define GONE          410
#define LOCAL_WAIT_MS 1000 /* wait before retrying a row that this host could not send */

static const char *const state_names[] = {"open", "paused", "probing"};
static const char *const outcome_names[] = {"delivered", "retry", "dead", "unsent", "gone"};

const char *target_state_name(enum target_state state)
{
	return state_names[state];
}

const struct target *target_failing(const struct target *t)
{
	const struct log_spell *own = &t->spell, *other = &t->other->spell;

	if (!own->times && !other->times)
		return NULL;
	return !other->times || (own->times && own->began_ms <= other->began_ms) ? t : t->other;
}

size_t target_at_work(const struct target *t)
{
	return t->at_work + t->other->at_work;
}

uint64_t target_ended(const struct target *t, enum target_outcome outcome)
{
	return t->ended[outcome] + t->other->ended[outcome];
}

const char *target_outcome_name(enum target_outcome outcome)
{
	return outcome_names[outcome];
}

/* A webhook that accepts some deliveries fails and works all the time, so whole spells are logged. */
static void tell_failure(struct target *t, const struct target_answer *answer, int64_t now_ms)
{
	const char *body = answer->status && answer->reason ? answer->reason : "";
	char *reason;

	if (answer->status)
		snprintf(t->why, sizeof(t->why), "it answered %d", answer->status);
	else
		snprintf(t->why, sizeof(t->why), "%s", answer->reason);
	reason = memory_printf("%s%s%s", t->why, *body ? ": " : "", body);
	if (answer->status == GONE)
		t->spell.times = 0; /* log it in any case */
	log_spell_on(&t->spell, now_ms,
		     answer->status == GONE ? "webhook is gone, pausing it until wsonce webhooks resume"
		     : answer->is_local     ? "cannot make requests to a webhook, pausing it"
		     : t->is_retry          ? "deliveries to a webhook fail again"
					    : "webhook fails",
		     reason);
	free(reason);
}

/* --- how many rows --- */

static size_t concurrency(const struct target *t)
{
	size_t all = (size_t)t->webhook->concurrency;

	return t->state != TARGET_OPEN ? t->state == TARGET_PROBING : t->is_retry ? (all + 1) / 2 : all;
}

/* While probing, requests that began before the pause take no slot: they may hang. */
static size_t slots_used(const struct target *t)
{
	return t->state == TARGET_OPEN ? t->at_work : t->probes;
}

static size_t less(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

size_t target_free_slots(const struct target *t)
{
	size_t own = less(concurrency(t), slots_used(t));
	size_t both = less((size_t)t->webhook->concurrency, slots_used(t) + slots_used(t->other));

	return own < both ? own : both;
}

size_t target_batch(const struct webhook *w, int attempt)
{
	size_t rows = (size_t)w->batch;

	for (; rows && attempt > 1; attempt--)
		rows /= 10;
	return rows ? rows : 1;
}

bool target_begin(struct target *t, size_t rows)
{
	bool is_probe = t->state == TARGET_PROBING;

	t->at_work++;
	t->rows += rows;
	t->probes += is_probe;
	return is_probe;
}

void target_end(struct target *t, size_t rows, bool is_probe)
{
	t->at_work--;
	t->rows -= rows;
	t->probes -= is_probe;
}

/* Returns how many rows all slots can have at once: one per slot if the bodies take much memory, and one row while
 * probing. */
static size_t most_rows(const struct target *t)
{
	bool has_batches = t->state == TARGET_OPEN && t->bytes < TARGET_AHEAD_BYTES;

	return concurrency(t) * (has_batches ? target_batch(t->webhook, t->is_retry ? 2 : 1) : 1);
}

size_t target_want(struct target *t, int64_t now_ms)
{
	size_t used;
	bool is_ahead, is_idle = t->state == TARGET_PROBING && !t->probes && now_ms - t->resume_ms >= TARGET_IDLE_MS;

	if (t->state == TARGET_OPEN || is_idle)
		log_spell_off(&t->spell, now_ms,
			      is_idle       ? NULL
			      : t->is_retry ? "webhook accepts retries again"
					    : "webhook accepts deliveries again");
	if (t->state == TARGET_PAUSED && now_ms >= t->resume_ms) {
		t->state = TARGET_PROBING;
		t->is_newest = !t->is_newest;
	}
	is_ahead =
		t->state == TARGET_OPEN && !t->spell.times && !t->is_retry && t->depth && t->bytes < TARGET_AHEAD_BYTES;
	used = t->state == TARGET_OPEN ? t->rows : t->probes;
	t->wanted = less(is_ahead ? t->depth : most_rows(t), used + t->waiting);
	return t->wanted;
}

void target_supply(struct target *t, size_t rows, size_t bytes)
{
	size_t least = (size_t)t->webhook->concurrency * target_batch(t->webhook, 1), most = least * TARGET_AHEAD;
	size_t left = less(t->waiting, rows);
	bool is_starved = t->wanted && rows == t->wanted && !left && !t->at_work;

	t->is_newest &= rows || !t->wanted; /* once: it may read many dead entries of the index */
	if (t->depth < least)
		t->depth = least;
	if (is_starved)
		t->depth *= 2;
	else if (left > t->depth / 2)
		t->depth -= t->depth / 4;
	if (rows && bytes && most > TARGET_AHEAD_BYTES / (bytes / rows + 1))
		most = TARGET_AHEAD_BYTES / (bytes / rows + 1);
	if (t->depth > most)
		t->depth = most;
	if (t->depth < least)
		t->depth = least;
}

/* --- answers --- */

bool target_is_success(int status)
{
	return status >= 200 && status < 300;
}

/* 410 asks the webhook to send nothing more (Standard Webhooks). Two statuses certainly refuse the delivery itself.
 * Others may come from something in front of the receiver: an ingress without a backend answers 404, a changed login
 * 401. Redirects are not followed, because the operator decides where events go. */
static enum target_outcome judge(int status)
{
	if (target_is_success(status))
		return TARGET_DELIVERED;
	return status == GONE ? TARGET_GONE : status == 400 || status == 422 ? TARGET_DEAD : TARGET_RETRY;
}

/* Shortens each pause by up to a quarter, so that a fleet does not probe at the same moment. */
static void start_pause(struct target *t, const struct target_answer *answer, int64_t now_ms, uint32_t random)
{
	bool is_retried = t->is_retry || judge(answer->status) == TARGET_RETRY;
	int64_t cap_ms = is_retried ? TARGET_RETRY_CAP_MS : TARGET_PAUSE_CAP_MS;

	t->pause_ms = !t->pause_ms ? TARGET_PAUSE_MS : t->pause_ms * 2 < cap_ms ? t->pause_ms * 2 : cap_ms;
	t->resume_ms = t->pause_ms - (int64_t)(random % (uint64_t)(t->pause_ms / 4));
	if (t->resume_ms < answer->retry_after_ms)
		t->resume_ms = answer->retry_after_ms;
	t->resume_ms += now_ms;
	t->state = TARGET_PAUSED;
}

static void succeed(struct target *t)
{
	t->failures = 0;
	t->pause_ms = 0;
	t->is_newest = false;
	t->state = TARGET_OPEN;
}

static int64_t wait_before(const struct target *t, int attempt, const struct target_answer *answer, uint32_t random)
{
	struct backoff b = {t->webhook->backoff_ms, t->webhook->backoff_cap_ms, (unsigned int)attempt - 1};
	int64_t wait = backoff_next(&b, random);

	return wait > answer->retry_after_ms ? wait : answer->retry_after_ms;
}

/* True if the row may be the cause, and not a receiver that is down or busy. */
static bool may_be_row(const struct target_answer *answer)
{
	int status = answer->status;

	return status && status != 429 && (status < 502 || status > 504) && !answer->retry_after_ms;
}

/* Every failure counts, even a final refusal: a broken receiver may refuse everything, and each refused row is dead. A
 * success in either lane shows that the receiver is up, since some fail every first attempt and others never accept
 * certain rows. So successes earn credit: a receiver that refuses half of the rows is not paused. While paused,
 * failures of requests in progress change nothing. */
void target_hear(struct target *t, const struct target_answer *answer, bool is_probe, int64_t now_ms, uint32_t random)
{
	bool is_useless = answer->is_local || answer->status == GONE; /* more requests are useless: pause at once */

	if (t->state == TARGET_PROBING && !is_probe)
		return;
	if (target_is_success(answer->status)) {
		succeed(t);
		succeed(t->other);
		t->credit = t->credit < TARGET_CREDIT ? t->credit + TARGET_FAILURES : t->credit;
		return;
	}
	t->failures += !is_useless;
	if (t->state == TARGET_PAUSED || (t->state == TARGET_OPEN && !is_useless && t->failures < TARGET_FAILURES))
		return;
	tell_failure(t, answer, now_ms);
	if (t->state == TARGET_OPEN && !is_useless && t->credit && may_be_row(answer))
		t->credit--;
	else
		start_pause(t, answer, now_ms, random);
}

enum target_outcome target_take(const struct target *t, const struct target_answer *answer, size_t rows, int attempt,
				uint32_t random, int64_t *wait_ms)
{
	enum target_outcome outcome = answer->is_local ? TARGET_UNSENT : judge(answer->status);

	if (rows > 1 && outcome == TARGET_DEAD)
		outcome = TARGET_RETRY;
	else if (rows == 1 && outcome == TARGET_RETRY && attempt >= t->webhook->attempts)
		outcome = TARGET_DEAD;
	*wait_ms = outcome == TARGET_UNSENT  ? LOCAL_WAIT_MS
		   : outcome == TARGET_RETRY ? wait_before(t, attempt, answer, random)
					     : 0;
	return outcome;
}
