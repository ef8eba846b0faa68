/* checker.c decides what is right: each id is a register that is written once. It shares no code with the program, and
 * knows only what a producer, the tables and Redis's keys show. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feeds.h"
#include "files.h"
#include "redis.h"
#include "world.h"

#define SECOND       INT64_C(1000000)
#define RECEIVED_MAX 40000
#define LETTERS_MAX  2000
#define LIVES_MAX    1000
#define KEYS_MAX     60               /* events whose Redis keys are compared */
#define BACKENDS_MAX 8                /* per listener */
#define DUE_MARGIN   (5 * SECOND / 2) /* how long after the TTL another listener may store an event */
#define FAULT_MARGIN (10 * SECOND)    /* the same when rare paths are taken often */
#define BEAT_MARGIN  (7 * SECOND)     /* until a disturbed owner is known to be alive again */
#define AGE_MARGIN   (2 * SECOND)
#define WRITE_MARGIN (SECOND / 10)      /* for a turn of the loop, and the disk */
#define PAST_US      (12 * SECOND / 10) /* how long marks of the previous epoch may still be believed */

/* The state of an id. */
struct fact {
	int commits, acks_persisted, forgotten;
	int own_commits, effects; /* rows that listeners inserted, and committed calls of the handler */
	int message;              /* the message stored in the row; -1 if none */
	int64_t committed_at, forgotten_at;
	int64_t received_at; /* when an undisturbed listener first received it and could store it; -1 if never */
	int witness, witness_life;
	bool has_letter;
};

/* A claim's value begins with the process's name, the nonce of its life, and @. */
#define OWNER_MAX 40

/* The state of an event's delivery to a webhook. */
struct hook_fact {
	char key[40];
	int posts, leases;           /* rows committed and not forgotten; leases of the last one */
	int taken, refused;          /* requests that the receiver accepted and refused */
	int may_send[SIM_LISTENERS]; /* leases not used by a request yet */
	int64_t leased_until[SIM_LISTENERS];
};

struct received {
	int process, life, message;
	int64_t at;
};

struct letter {
	unsigned char digest[32];
	bool is_gone;
};

static struct {
	const struct plan *plan;
	struct fact facts[EVENTS_MAX];
	struct received received[RECEIVED_MAX];
	int received_count;
	struct letter letters[LETTERS_MAX];
	int letter_count;
	enum { LIVING, IN_ORDER, LOST } ends[LIVES_MAX];
	bool has_slow_rows, has_clock_steps;
	int too_long[SIM_LISTENERS]; /* timed-out statements since one was committed or refused */
	int64_t forgotten_at;        /* when the database last lost commits; -1 if never */
	char owners[SIM_LISTENERS][OWNER_MAX];
	int64_t owners_since[SIM_LISTENERS];
	struct hook_fact hooks[EVENTS_MAX][HOOKS_MAX];
	bool is_lease_refused;
	bool is_owed[SIM_LISTENERS][MESSAGES_MAX];  /* it was on this listener's disk when that died */
	bool is_scrap[SIM_LISTENERS][MESSAGES_MAX]; /* after a loss of power, its rest may not be a record */
	bool has_lost_power[SIM_LISTENERS];
} checker;

static bool has_fault(const char *name)
{
	for (int i = 0; i < checker.plan->deed_count; i++)
		if (checker.plan->deeds[i].kind == DEED_FAULT && strcmp(checker.plan->deeds[i].fault->name, name) == 0)
			return true;
	return false;
}

void checker_start(const struct plan *plan)
{
	memset(&checker, 0, sizeof(checker));
	checker.plan = plan;
	checker.forgotten_at = -1;
	checker.has_slow_rows = has_fault("postgres: rows take long");
	checker.has_clock_steps = has_fault("listener: wall clock stepped");
	for (int i = 0; i < plan->events; i++)
		checker.facts[i] = (struct fact){.message = -1, .received_at = -1, .forgotten_at = -1};
}

static int event_of(const char *id, size_t len)
{
	for (int i = 0; i < checker.plan->events; i++)
		if (strlen(checker.plan->ids[i]) == len && memcmp(checker.plan->ids[i], id, len) == 0)
			return i;
	return -1;
}

static const char *id_of(int event)
{
	return checker.plan->ids[event];
}

/* Was the message too old then? A listener's clock that was stepped may have said so. */
static bool is_too_old(const struct message *m, int64_t then)
{
	int64_t limit_us = checker.plan->settings.max_age_s * SECOND;

	return limit_us && (sim_wall() - sim_now() + then - m->time_us > limit_us || checker.has_clock_steps);
}

static int64_t latest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* --- what must be stored by now --- */

/* Until when dead letters that are refused may fill the small memory beside a spool, so that nothing is read back. */
static int64_t full_until(void)
{
	const struct settings *s = &checker.plan->settings;
	int64_t until = -1;

	for (int i = 0; s->has_spool && i < checker.plan->deed_count; i++) {
		const struct deed *d = &checker.plan->deeds[i];

		if (d->kind == DEED_FAULT && !d->is_left_out && d->at <= sim_now() &&
		    strcmp(d->fault->name, "postgres: dead letters are refused") == 0)
			until = latest(until, d->at + d->lasts);
	}
	return until < s->lasts ? until : s->lasts;
}

/* Since when only the listener itself delays the event's row; -1 if something else still does. */
static int64_t free_since(const struct fact *f, int event)
{
	int64_t since = f->received_at;
	int64_t touched =
		latest(latest(world_touched_until(id_of(event)), full_until()), files_unreadable_until(f->witness));

	if (since < 0 || checker.ends[f->witness_life] != LIVING || world_wide_until() > sim_now() ||
	    touched > sim_now())
		return -1;
	for (int i = 0; i < checker.plan->settings.listeners; i++)
		since = latest(since, world_disturbed_until(i) > sim_now() ? -1 : world_disturbed_until(i));
	if (world_disturbed_until(f->witness) > sim_now())
		return -1;
	return latest(latest(since, world_wide_until()), touched);
}

/* How long rows may take that come before an event's own. */
static int64_t queue_us(void)
{
	return checker.has_slow_rows ? checker.plan->events * SECOND / 8 : 0;
}

/* How long the search for rows may take that others held meanwhile: each is met by each listener, perhaps twice. */
static int64_t search_us(const struct fact *f)
{
	int64_t us = 0;

	for (int i = 0; i < checker.plan->events; i++)
		if (world_touched_until(id_of(i)) > f->received_at)
			us += SECOND / 10;
	return us;
}

static bool is_disturbed(void)
{
	for (int i = 0; i < checker.plan->settings.listeners; i++)
		if (world_disturbed_until(i) > sim_now())
			return true;
	return false;
}

/* After a fault that affected all listeners, an event may have to wait for its longest backoff. Statements with a
 * handler wait for each other. */
static int64_t time_for(const struct fact *f, int event)
{
	const struct settings *s = &checker.plan->settings;
	int64_t ms = s->ttl_s * SECOND + DUE_MARGIN + s->redis_timeout_ms * 1000;
	/* a claim is renewed until its batch, sent into the silence, has timed out */
	int64_t batch = world_late_until() > f->received_at ? s->postgres_timeout_ms * 1000 : 0;
	bool was_wide = world_wide_until() > f->received_at - 15 * SECOND && world_wide_until() > SECOND;

	if (was_wide || s->has_handler || s->hooks || world_touched_until(id_of(event)) > 0)
		ms += 2 * s->ttl_s * SECOND + 13 * SECOND + s->postgres_timeout_ms * 1000;
	if (s->has_spool) /* a copy that left memory is held again */
		ms += 2 * s->ttl_s * SECOND;
	if (is_disturbed()) /* between two faults, a listener may claim it once more */
		ms += s->ttl_s * SECOND;
	return ms + batch + queue_us() + search_us(f) + (fault_point_is_on() ? FAULT_MARGIN : 0);
}

/* May this event be one for which a dead letter is being written? */
static bool may_be_stale(int event)
{
	for (int i = 0; i < checker.plan->message_count; i++)
		if (checker.plan->messages[i].event == event && is_too_old(&checker.plan->messages[i], sim_now()))
			return true;
	return false;
}

void checker_look(void)
{
	int most = checker.plan->settings.listeners * BACKENDS_MAX * (checker.plan->settings.hooks ? 2 : 1);

	/* a server that was frozen still has backends whose clients are gone */
	if (sim_backends() > most && !world_was_silent() && world_wide_until() < sim_now() - 3 * SECOND)
		process_fail("%d backends for %d listeners", sim_backends(), checker.plan->settings.listeners);
	if (checker.plan->settings.has_order) /* one event keeps others waiting */
		return;
	for (int i = 0; i < checker.plan->events; i++) {
		const struct fact *f = &checker.facts[i];
		int64_t since;

		if (f->received_at < 0 || f->commits || f->has_letter || may_be_stale(i))
			continue;
		since = free_since(f, i);
		if (since >= 0 && sim_now() - since > time_for(f, i))
			process_fail(
				"%s is not stored %.1f s after listener %d received it and nothing stood in its way",
				id_of(i), (double)(sim_now() - since) / 1e6, f->witness);
	}
}

/* Does a good message wait for another one with its id to become a dead letter? That takes as long as dead letters are
 * refused. */
static bool has_poison(int event)
{
	for (int i = 0; i < checker.plan->message_count; i++)
		if (checker.plan->messages[i].event == event && checker.plan->messages[i].is_poison)
			return true;
	return false;
}

void checker_received(int process, int life, int message)
{
	int event = checker.plan->messages[message].event;
	struct fact *f = event < 0 ? NULL : &checker.facts[event];

	if (checker.received_count == RECEIVED_MAX || life >= LIVES_MAX)
		process_fail("the checker's tables are full");
	checker.received[checker.received_count++] = (struct received){process, life, message, sim_now()};
	if (f && f->commits && sim_now() - f->committed_at > SECOND / 2)
		cost_late_copy();
	/* It must be stored soon if an undisturbed listener has it. */
	if (!f || has_poison(event) || world_disturbed_until(process) > sim_now())
		return;
	if (f->received_at < 0 || checker.ends[f->witness_life] != LIVING ||
	    world_disturbed_until(f->witness) > sim_now()) {
		f->received_at = sim_now();
		f->witness = process;
		f->witness_life = life;
	}
}

/* --- the spool --- */

static bool is_on_disk(int process, int message, bool is_synced)
{
	const struct message *m = &checker.plan->messages[message];

	return m->event >= 0 && files_have(process, m->bytes, m->len, is_synced);
}

/* Has it an id that no other message has? */
static bool is_alone(int message)
{
	const struct plan *plan = checker.plan;
	int event = plan->messages[message].event;

	for (int i = 0; i < plan->message_count; i++)
		if (i != message && plan->messages[i].event == event)
			return false;
	return event >= 0;
}

/* And will nobody send it again? */
static bool is_spooled_alone(int message)
{
	const struct plan *plan = checker.plan;

	for (int i = 0; i < plan->deed_count; i++)
		if (plan->deeds[i].kind == DEED_PRODUCE && plan->deeds[i].message == message)
			return false;
	return is_alone(message) && !plan->messages[message].is_poison;
}

/* What came some time before must be on the disk. */
void checker_died(int process, int life, bool is_dark)
{
	const struct settings *s = &checker.plan->settings;
	int64_t calm_since = latest(world_disturbed_until(process), files_disturbed_until(process));
	int64_t until = sim_now() - (s->spool_after_ms + (is_dark ? s->spool_sync_ms : 0)) * 1000 - WRITE_MARGIN;

	for (int i = 0; s->has_spool && i < checker.received_count; i++) {
		const struct received *r = &checker.received[i];

		if (r->life != life || r->at > until || r->at < calm_since || calm_since > sim_now() ||
		    !is_spooled_alone(r->message) || checker_was_kept(r->message) ||
		    is_too_old(&checker.plan->messages[r->message], r->at))
			continue;
		if (!is_on_disk(process, r->message, is_dark))
			process_fail("%s, which listener %d received %.3f s before it died, is not on its disk",
				     id_of(checker.plan->messages[r->message].event), process,
				     (double)(sim_now() - r->at) / 1e6);
	}
}

/* What is on the disk of a listener that starts must be stored, and stays there until it is. After a loss of power that
 * holds for what was synced. */
static void note_owed(int process)
{
	bool *is_owed = checker.is_owed[process];

	for (int i = 0; checker.plan->settings.has_spool && i < checker.plan->message_count; i++) {
		bool is_there = is_on_disk(process, i, false);

		if (is_owed[i] && !is_there && !checker_was_kept(i))
			process_fail("%s was on the disk of listener %d, and is neither there nor stored",
				     id_of(checker.plan->messages[i].event), process);
		if (checker.has_lost_power[process])
			checker.is_scrap[process][i] |= is_there && !is_owed[i];
		is_owed[i] = is_there && !checker.is_scrap[process][i];
	}
	checker.has_lost_power[process] = false;
}

void checker_loses_power(int process)
{
	for (int i = 0; checker.plan->settings.has_spool && i < checker.plan->message_count; i++)
		checker.is_owed[process][i] = is_on_disk(process, i, true) && !checker.is_scrap[process][i];
	checker.has_lost_power[process] = true;
}

static void check_owed(int process)
{
	for (int i = 0; i < checker.plan->message_count; i++)
		if (checker.is_owed[process][i] && !checker_was_kept(i))
			process_fail("%s was on the disk of listener %d, and is not stored",
				     id_of(checker.plan->messages[i].event), process);
}

void checker_ended(int process, int life, bool is_in_order)
{
	checker.ends[life] = is_in_order ? IN_ORDER : LOST;
	checker.owners[process][0] = '\0';
}

unsigned int checker_knows(int event)
{
	return (checker.facts[event].commits > 0) | (unsigned int)checker.facts[event].has_letter << 1;
}

/* --- order --- */

/* The place where this life of the listener received the event first; -1: it has not. */
static int place_of(int process, int event)
{
	int life = world_life(process);

	for (int i = 0; i < checker.received_count; i++)
		if (checker.received[i].life == life &&
		    checker.plan->messages[checker.received[i].message].event == event)
			return i;
	return -1;
}

/* All that this listener received before, of the same key, is stored. Events with several messages are tried in an
 * order of their own. */
static void check_order(int process, int event)
{
	int place = place_of(process, event);
	const struct message *m = place < 0 ? NULL : &checker.plan->messages[checker.received[place].message];

	for (int i = 0; i < place && is_alone(checker.received[place].message); i++) {
		const struct received *r = &checker.received[i];
		const struct message *other = &checker.plan->messages[r->message];

		if (r->life != checker.received[place].life || !is_alone(r->message) ||
		    strncmp(other->payload, m->payload, strlen("{\"v\":0,")) != 0 || checker_was_kept(r->message) ||
		    is_too_old(other, sim_now()))
			continue;
		process_fail("%s has its row before %s, which has its key and came earlier", id_of(event),
			     id_of(other->event));
	}
}

/* --- the database --- */

/* A listener compares ages when it sends a batch, and a batch may take as long as a statement or its rows may. An event
 * that was in a statement without an answer may have its row, so it is never too old. */
static void check_age(int process, const struct message *m)
{
	int64_t batch_us = checker.plan->settings.postgres_timeout_ms * 1000 + AGE_MARGIN + queue_us();
	int64_t since = sim_now() - batch_us;
	int place = place_of(process, m->event);

	if (!is_too_old(m, since))
		return;
	if (place >= 0 && checker.received[place].at < since)
		since = checker.received[place].at;
	if (checker.has_clock_steps || world_wide_until() > since || world_disturbed_until(process) > since ||
	    world_late_until() > since || world_touched_until(id_of(m->event)) > 0)
		return;
	process_fail("%s is stored %.1f s after its time", id_of(m->event), (double)(sim_wall() - m->time_us) / 1e6);
}

void sim_committed_row(int process, int life, const char *id, size_t id_len, const char *payload, size_t len)
{
	int event = event_of(id, id_len);
	struct fact *f;

	if (event < 0)
		return; /* another program's row */
	f = &checker.facts[event];
	if (f->message >= 0)
		process_fail("%s has a second row", id_of(event));
	for (int i = 0; i < checker.plan->message_count; i++) {
		const struct message *m = &checker.plan->messages[i];

		if (m->event == event && m->payload_len == len && memcmp(m->payload, payload, len) == 0)
			f->message = i;
	}
	if (process == SIM_NOBODY) { /* another program stored it */
		f->message = f->message < 0 ? 0 : f->message;
	} else if (f->message < 0) {
		process_fail("the row of %s has bytes that nobody sent: %.*s", id_of(event), (int)len, payload);
	} else if (checker.plan->messages[f->message].is_poison) {
		process_fail("the row of %s has bytes that cannot be stored", id_of(event));
	}
	f->commits++;
	if (process != SIM_NOBODY)
		checker.too_long[process] = 0;
	f->own_commits += process != SIM_NOBODY;
	/* Postgres may commit late what an earlier life of the listener has sent. */
	if (process != SIM_NOBODY && life == world_life(process)) {
		check_age(process, &checker.plan->messages[f->message]);
		if (checker.plan->settings.has_order && !checker.plan->settings.has_spool)
			check_order(process, event);
	}
	f->committed_at = sim_now();
	sim_log(process, "%s has its row", id_of(event));
}

void sim_committed_changed(int process)
{
	process_fail("listener %d commits in a session that a handler has changed", process);
}

void sim_forgot_row(const char *id, size_t id_len)
{
	int event = event_of(id, id_len);

	if (event < 0)
		return;
	checker.facts[event].message = -1;
	checker.facts[event].forgotten++;
	checker.facts[event].forgotten_at = checker.forgotten_at = sim_now();
	sim_log(SIM_NOBODY, "the row of %s is forgotten", id_of(event));
}

static struct letter *find_letter(const unsigned char digest[32])
{
	for (int i = 0; i < checker.letter_count; i++)
		if (memcmp(checker.letters[i].digest, digest, 32) == 0)
			return &checker.letters[i];
	return NULL;
}

static int message_of(const unsigned char digest[32])
{
	for (int i = 0; i < checker.plan->message_count; i++)
		if (memcmp(checker.plan->messages[i].digest, digest, 32) == 0 ||
		    memcmp(checker.plan->messages[i].feed_digest, digest, 32) == 0)
			return i;
	return -1;
}

void sim_committed_letter(int process, const unsigned char digest[32], const char *id, size_t id_len,
			  const char *reason)
{
	struct letter *l = find_letter(digest);
	int at = message_of(digest);
	const struct message *m;

	(void)id, (void)id_len;
	if (at < 0)
		process_fail("a letter for a message that nobody sent: %s", reason);
	m = &checker.plan->messages[at];
	if (!l && checker.letter_count < LETTERS_MAX)
		l = &checker.letters[checker.letter_count++];
	memcpy(l->digest, digest, 32);
	l->is_gone = false;
	sim_log(process, "message %d is a dead letter: %s", at, reason);
	checker.too_long[process] = 0;
	cost_letter();
	if (m->event < 0)
		return;
	checker.facts[m->event].has_letter = true;
	if (!m->is_poison && !is_too_old(m, sim_now()) && !world_may_refuse(id_of(m->event)))
		process_fail("a good message of %s became a dead letter: %s", id_of(m->event), reason);
}

void sim_forgot_letter(const unsigned char digest[32])
{
	struct letter *l = find_letter(digest);

	checker.forgotten_at = sim_now();
	if (l)
		l->is_gone = true;
	sim_log(SIM_NOBODY, "the dead letter of message %d is forgotten", message_of(digest));
}

void sim_committed_effect(int process, const char *id, size_t id_len)
{
	int event = event_of(id, id_len);

	if (event < 0 || process == SIM_NOBODY)
		return;
	checker.facts[event].effects++;
}

/* --- acks --- */

static int64_t received_at(int process, int message)
{
	for (int i = checker.received_count - 1; i >= 0; i--)
		if (checker.received[i].process == process && checker.received[i].message == message)
			return checker.received[i].at;
	return -1;
}

static void check_persisted(const struct fact *f, int event, int message)
{
	const char *id = id_of(event);

	if (!f->commits)
		process_fail("ack persisted for %s, which has no row", id);
	if (f->acks_persisted > f->commits)
		process_fail("ack persisted for %s, %d times, of %d rows", id, f->acks_persisted, f->commits);
	if (f->message >= 0 && !f->forgotten && f->message != message)
		process_fail("ack persisted for message %d of %s, whose row has the bytes of message %d", message, id,
			     f->message);
}

static void check_duplicate(const struct fact *f, int event, int process, int message)
{
	if (!f->commits)
		process_fail("ack duplicate for %s, which has no row", id_of(event));
	if (f->message < 0 && received_at(process, message) > f->forgotten_at + PAST_US)
		process_fail("ack duplicate for %s, whose row was forgotten before it came", id_of(event));
}

void checker_acked(int process, int message, enum word word)
{
	const struct message *m = &checker.plan->messages[message];
	struct fact *f = m->event < 0 ? NULL : &checker.facts[m->event];

	if (word == WORD_REJECTED) {
		const struct letter *l = find_letter(m->digest);

		if (!l)
			process_fail("ack rejected for message %d, which is no dead letter", message);
		if (l->is_gone && received_at(process, message) > checker.forgotten_at + PAST_US)
			process_fail("ack rejected for message %d, whose letter was forgotten before it came", message);
		return;
	}
	if (!f)
		process_fail("ack for message %d, which has no id, is not rejected", message);
	if (word == WORD_PERSISTED) {
		f->acks_persisted++;
		check_persisted(f, m->event, message);
	} else {
		check_duplicate(f, m->event, process, message);
	}
}

/* --- Redis --- */

static bool begins(const char *value, size_t len, const char *head)
{
	return len >= strlen(head) && memcmp(value, head, strlen(head)) == 0;
}

void checker_own(int process, const char *value, size_t len)
{
	if (!begins(value, len, sim_print("l%d.", process)))
		process_fail("listener %d renews or gives back a claim that is not its own: %.*s", process, (int)len,
			     value);
}

static void note_owner(int process, const char *value, size_t len)
{
	char *owner = checker.owners[process];
	const char *end = memchr(value, '@', len);

	if (!end || end - value >= OWNER_MAX || strncmp(owner, value, (size_t)(end - value)) == 0)
		return;
	memcpy(owner, value, (size_t)(end - value));
	owner[end - value] = '\0';
	checker.owners_since[process] = sim_now();
}

void checker_started(int process)
{
	checker.owners[process][0] = '\0';
	note_owed(process);
}

void checker_key(int process, const char *id, size_t id_len, const char *value, size_t len, bool was_there)
{
	int event = event_of(id, id_len);

	(void)was_there;
	if (event < 0)
		return;
	if (begins(value, len, "done@")) {
		if (!checker.facts[event].commits)
			process_fail("a done mark for %s, which has no row", id_of(event));
	} else if (begins(value, len, "dead@")) {
		if (!checker.facts[event].has_letter)
			process_fail("a dead mark for %s, of which there is no letter", id_of(event));
	} else {
		checker_own(process, value, len);
		note_owner(process, value, len);
	}
}

/* The listener that owns this claim, if it was alive and it, Redis and the network were undisturbed for `quiet` before
 * `at`; else -1. */
static int calm_owner(const char *value, int64_t at, int64_t quiet)
{
	for (int i = 0; i < checker.plan->settings.listeners; i++) {
		size_t len = strlen(checker.owners[i]);

		if (!len || strncmp(value, checker.owners[i], len) != 0 || !process_is_alive(i))
			continue;
		if (checker.owners_since[i] <= at - quiet && world_disturbed_until(i) <= at - quiet &&
		    world_redis_until() <= at - quiet && world_wide_until() <= at - quiet)
			return i;
	}
	return -1;
}

/* A working listener renews its claims, so they must not expire. */
void checker_lapsed(const char *value, int64_t at)
{
	int i = calm_owner(value, at, (checker.plan->settings.ttl_s + 3) * SECOND);

	if (i >= 0)
		process_fail("the claim %s ran out, though listener %d lives and nothing disturbed it", value, i);
}

/* A live listener sends heartbeats, so its claims must not be inherited. */
void checker_inherited(const char *value)
{
	int i = calm_owner(value, sim_now(), BEAT_MARGIN);

	if (i >= 0)
		process_fail("the claim %s is taken over, though listener %d lives and nothing disturbed it", value, i);
}

/* Batches have at most about 300 rows, so a batch can be halved nine times. */
void sim_took_too_long(int process, size_t rows)
{
	if (rows < 2 || world_wide_until() > sim_now() - 2 * SECOND || checker.plan->settings.has_handler ||
	    checker.plan->settings.hooks)
		checker.too_long[process] = 0;
	else if (++checker.too_long[process] > 10)
		process_fail(
			"%d statements of listener %d took too long, one after the other, and had more than one row",
			checker.too_long[process], process);
}

/* Events with claims are stored in the order of arrival, so two listeners may wait for each other where faults have let
 * both of them claim the same events, or where one stores an event without a claim: on a rare path, or since a slow
 * leader has kept it for two TTLs. */
static bool may_have_two_claims(void)
{
	const struct settings *s = &checker.plan->settings;
	bool has_faults = fault_point_is_on() || (s->slow_us && 2 * s->ttl_s * SECOND < s->lasts);

	for (int i = 0; i < checker.plan->deed_count; i++)
		has_faults |= checker.plan->deeds[i].kind == DEED_FAULT;
	return s->has_redis && has_faults;
}

void sim_deadlocked(int process)
{
	if (!checker.plan->settings.has_handler && !checker.plan->settings.hooks && !may_have_two_claims())
		process_fail("a statement of listener %d and another one waited for each other", process);
}

void checker_deleted(int process, const char *key, const char *value)
{
	if (strncmp(key, "dedup:", 6) == 0)
		process_fail("listener %d deletes %s, which is %s, whosever it is", process, key, value);
}

/* --- deliveries --- */

static struct hook_fact *hook_of(const char *target, const char *id)
{
	int event = event_of(id, strlen(id));

	if (event < 0)
		process_fail("a delivery of %s, which is no event", id);
	return &checker.hooks[event][world_hook(target)];
}

static void check_end(const struct hook_fact *h, const char *target, const char *id, const char *state)
{
	if (strcmp(state, "delivered") == 0 && !h->taken)
		process_fail("the delivery of %s to %s is settled, and the receiver has not got it", id, target);
	if (strcmp(state, "dead") == 0 && !h->refused && !checker.is_lease_refused &&
	    h->leases < checker.plan->settings.hook_attempts)
		process_fail("the delivery of %s to %s is dead after %d attempts, and nothing refused it", id, target,
			     h->leases);
}

void sim_committed_delivery(int process, const char *target, const char *id, const char *was, const char *is)
{
	struct hook_fact *h = hook_of(target, id);

	if (!was) {
		h->posts++;
		h->leases = 0;
	} else if (strcmp(was, "pending") == 0 && process != SIM_NOBODY) {
		check_end(h, target, id, is);
	}
	if (was && strcmp(was, "delivered") == 0 && strcmp(is, "delivered") != 0)
		process_fail("the delivery of %s to %s was settled, and is %s now", id, target, is);
	if (!was || strcmp(was, is) != 0)
		sim_log(process, "the delivery of %s to %s is %s", id, target, is);
}

void sim_committed_lease(int process, const char *target, const char *id, int64_t until)
{
	struct hook_fact *h = hook_of(target, id);

	h->leased_until[process] = until;
	h->may_send[process]++;
	h->leases++;
}

/* A row that cannot be read is abandoned. */
void sim_lease_refused(void)
{
	checker.is_lease_refused = true;
}

void sim_forgot_delivery(const char *target, const char *id)
{
	hook_of(target, id)->posts--;
	checker.forgotten_at = sim_now();
}

void checker_requested(int process, const char *target, const char *id, const char *key, int64_t until)
{
	struct hook_fact *h = hook_of(target, id);

	sim_log(process, "sends %s to webhook %s", id, target);
	if (!*h->key)
		snprintf(h->key, sizeof(h->key), "%s", key);
	if (strcmp(h->key, key) != 0)
		process_fail("the delivery of %s to %s has another key than before", id, target);
	if (!checker.facts[event_of(id, strlen(id))].commits)
		process_fail("a delivery of %s, which has no row", id);
	world_sends(process);
	if (!h->may_send[process]--)
		process_fail("listener %d sends %s to %s without a lease of its own", process, id, target);
	if (until > h->leased_until[process])
		process_fail("listener %d sends %s to %s, and may be at it when the lease has ended", process, id,
			     target);
}

void checker_taken(const char *target, const char *id, int status)
{
	struct hook_fact *h = hook_of(target, id);

	h->taken += status >= 200 && status < 300;
	h->refused += status == 400 || status == 422;
}

/* Each row inserted by a listener has its deliveries, and no other row has any. */
static void check_posts(int event)
{
	const struct fact *f = &checker.facts[event];

	for (int i = 0; i < checker.plan->settings.hooks; i++) {
		int posts = checker.hooks[event][i].posts;

		if (f->forgotten ? posts < 0 || posts > f->own_commits : posts != f->own_commits)
			process_fail("%d deliveries to %s were posted for %d rows of %s", posts, world_hook_name(i),
				     f->own_commits, id_of(event));
	}
	for (int i = 0; i < checker.plan->settings.hooks && event < KEYS_MAX; i++)
		for (int other = 0; other < event; other++)
			for (int k = 0; k < HOOKS_MAX; k++)
				if (*checker.hooks[event][i].key &&
				    strcmp(checker.hooks[event][i].key, checker.hooks[other][k].key) == 0)
					process_fail("two deliveries have one key: %s and %s", id_of(event),
						     id_of(other));
}

/* --- the end --- */

static bool is_letter(const unsigned char digest[32])
{
	const struct letter *l = find_letter(digest);

	return l && !l->is_gone;
}

bool checker_has(int message)
{
	const struct message *m = &checker.plan->messages[message];

	return (m->event >= 0 && checker.facts[m->event].message >= 0) || is_letter(m->digest) ||
	       is_letter(m->feed_digest);
}

bool checker_is_scrap(int process, int message)
{
	return checker.is_scrap[process][message];
}

bool checker_was_kept(int message)
{
	const struct message *m = &checker.plan->messages[message];

	return (m->event >= 0 && checker.facts[m->event].commits) || find_letter(m->digest);
}

bool checker_trusts_old_marks(int64_t at)
{
	return checker.forgotten_at >= 0 && at <= checker.forgotten_at + PAST_US;
}

bool checker_forgets(void)
{
	return checker.forgotten_at >= 0 &&
	       sim_now() <= checker.forgotten_at + checker.plan->settings.postgres_timeout_ms * 1000 + PAST_US;
}

static void check_kept(const struct received *r)
{
	const struct message *m = &checker.plan->messages[r->message];

	if (checker_has(r->message) || checker_trusts_old_marks(r->at))
		return;
	process_fail("message %d%s%s, which listener %d received at %.6f, has neither row nor letter", r->message,
		     m->event < 0 ? "" : " of ", m->event < 0 ? "" : id_of(m->event), r->process, (double)r->at / 1e6);
}

void checker_finish(void)
{
	feeds_finish(checker.forgotten_at >= 0);
	for (int i = 0; i < SIM_LISTENERS; i++)
		check_owed(i);
	for (int i = 0; i < checker.received_count; i++)
		if (checker.ends[checker.received[i].life] != LOST)
			check_kept(&checker.received[i]);
	for (int i = 0; i < checker.plan->events; i++) {
		const struct fact *f = &checker.facts[i];
		size_t len;

		if (checker.plan->settings.has_handler && f->effects != f->own_commits)
			process_fail("the handler ran %d times for %d rows of %s", f->effects, f->own_commits,
				     id_of(i));

		check_posts(i);
		if ((sim_row(id_of(i), strlen(id_of(i)), &len) != NULL) != (checker.facts[i].message >= 0))
			process_fail("SimPostgres and the checker do not agree about %s", id_of(i));
	}
}
