/* Stages in memory: a journal of pipeline.c's calls, and the test's answers. */
#include "fake_stages.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 40000

/* Events that wait for their callback. */
struct calls {
	struct event *events[CALLS_MAX];
	size_t count;
};

struct claim {
	uv_loop_t *loop;
	struct claim_callbacks on;
	uv_idle_t handle; /* never started: closing takes a turn of the loop */
	void (*done)(void *arg);
	void *done_arg;
};

struct store {
	struct store_callbacks on;
	bool is_noting;
	char *note;       /* the last text, on the heap */
	uv_idle_t handle; /* active while a check-in has no answer */
	void (*done)(void *arg);
	void *done_arg;
};

struct fake fake;
static struct claim the_claim;
static struct store the_store, the_second;
static struct calls takes, inserts, dead_letters, besides;

/* --- the journal --- */

static char journal[1 << 20];
static size_t journal_len;

static void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	journal_len += (size_t)vsnprintf(journal + journal_len, sizeof(journal) - journal_len, fmt, args);
	va_end(args);
	cr_assert_lt(journal_len, sizeof(journal), "the journal is full");
}

static void note_id(const struct event *ev)
{
	if (ev->id_len)
		note("%.*s", (int)ev->id_len, ev->id);
	else
		note("-");
}

static void note_call(const char *name, struct event *const *evs, size_t n)
{
	note("%s%s(", journal_len ? " " : "", name);
	for (size_t i = 0; i < n; i++) {
		note(i ? "," : "");
		note_id(evs[i]);
		if (strcmp(name, "dead_letter") == 0)
			note(":%s", evs[i]->reason ? evs[i]->reason : "");
	}
	note(")");
}

const char *fake_journal(void)
{
	static char text[sizeof(journal)];

	memcpy(text, journal, journal_len);
	text[journal_len] = '\0';
	journal_len = 0;
	return text;
}

/* --- calls and their answers --- */

static void call(struct calls *calls, struct event *ev)
{
	cr_assert_lt(calls->count, CALLS_MAX);
	calls->events[calls->count++] = ev;
}

static bool is_named(const struct event *ev, const char *id)
{
	if (strcmp(id, "-") == 0)
		return !ev->id_len;
	return strlen(id) == ev->id_len && memcmp(id, ev->id, ev->id_len) == 0;
}

static struct event *take_out(struct calls *calls, const char *id, const char *what)
{
	for (size_t i = 0; i < calls->count; i++) {
		struct event *ev = calls->events[i];

		if (!is_named(ev, id))
			continue;
		memmove(calls->events + i, calls->events + i + 1, (--calls->count - i) * sizeof(ev));
		return ev;
	}
	cr_assert_fail("no %s waits for an answer about %s", what, id);
	return NULL;
}

void fake_answer_take(const char *id, enum claim_result result)
{
	struct event *ev = take_out(&takes, id, "take");

	ev->is_claimed = result == CLAIM_MINE || result == CLAIM_UNKNOWN;
	if (result == CLAIM_DONE)
		ev->won_ms = ev->came_us / 1000 - (fake.has_old_marks ? 180000 : 60000);
	the_claim.on.on_claimed(the_claim.on.arg, ev, result);
}

void fake_set_owner(const char *id, uint16_t owner)
{
	for (size_t i = 0; i < takes.count; i++)
		if (is_named(takes.events[i], id))
			takes.events[i]->owner = owner;
}

void fake_end_owner(uint16_t owner)
{
	the_claim.on.on_owner_gone(the_claim.on.arg, owner);
}

void fake_answer_insert(const char *id, enum store_result result)
{
	const char *why = result == STORE_REFUSED || result == STORE_HOPELESS ? "the server's words" : NULL;

	the_store.on.on_stored(the_store.on.arg, take_out(&inserts, id, "insert"), result, why);
}

static void learn(const struct done *done)
{
	cr_assert_lt(fake.known_count, sizeof(fake.known) / sizeof(*fake.known));
	fake.known[fake.known_count++] = *done;
}

void fake_tell_done(const struct done *event)
{
	struct done done = *event;

	if (the_claim.on.on_done(the_claim.on.arg, &done, 1))
		learn(&done);
}

void fake_answer_beside(const char *id, enum store_result result)
{
	the_second.on.on_stored(the_second.on.arg, take_out(&besides, id, "beside"), result, NULL);
}

void fake_answer_dead_letter(const char *id, enum store_dead_letter dead_letter)
{
	the_store.on.on_dead_lettered(the_store.on.arg, take_out(&dead_letters, id, "dead_letter"), dead_letter);
}

void fake_answer_unusable(const char *sentence)
{
	the_store.on.on_unusable(the_store.on.arg, sentence, 1);
}

/* --- claim.h --- */

struct claim *claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *callbacks)
{
	the_claim = (struct claim){.loop = loop, .on = *callbacks};
	uv_idle_init(loop, &the_claim.handle);
	return &the_claim;
}

bool claim_has_other_leader(struct claim *c, const char *source)
{
	return fake.has_other_leader;
}

bool claim_had_other_leader(struct claim *c, const char *source, int64_t ms)
{
	return fake.has_other_leader;
}

struct presence *claim_presence(const struct claim *c)
{
	return NULL;
}

struct done_channel *claim_channel(const struct claim *c)
{
	return NULL;
}

void presence_wait_for_leader(struct presence *p, const char *source)
{
	fake.leader_waits++;
}

/* From then on this listener leads. */
void presence_suspect_leader(struct presence *p, const char *source)
{
	fake.has_other_leader = false;
}

bool done_channel_is_heard(const struct done_channel *c)
{
	return fake.hears_done;
}

const struct id_hash_key *done_channel_key(const struct done_channel *c)
{
	return NULL;
}

const struct done *done_channel_find(const struct done_channel *c, const struct id_hash *hash)
{
	for (size_t i = 0; i < fake.known_count; i++)
		if (id_hash_is_equal(&fake.known[i].hash, hash))
			return &fake.known[i];
	return NULL;
}

void done_channel_add(struct done_channel *c, const struct done *event)
{
	note("%stell", journal_len ? " " : "");
}

void done_channel_publish(struct done_channel *c)
{
}

bool presence_has_trouble(const struct presence *p)
{
	(void)p;
	return false;
}

void presence_say(struct presence *p, const char *trouble)
{
}

void presence_set_state(struct presence *p, enum peer_state state)
{
	if (state != PEER_DRAINING)
		note("%s%s", journal_len ? " " : "", state == PEER_PASSIVE ? "rest" : "wake");
}

bool claim_is_ready(const struct claim *c)
{
	return !fake.is_redis_away;
}

const char *claim_owner(const struct claim *c)
{
	return "me";
}

bool claim_is_used(const struct claim *c)
{
	return true;
}

int claim_take(struct claim *c, struct event *ev)
{
	if (fake.is_redis_away)
		return -1;
	note_call("take", &ev, 1);
	ev->lease_ms = (int64_t)uv_now(c->loop);
	call(&takes, ev);
	return 0;
}

void claim_inherit(struct claim *c, uint16_t owner, struct event *const *evs, size_t n)
{
	char name[24];

	snprintf(name, sizeof(name), "inherit %u ", owner);
	if (!fake.is_redis_away)
		note_call(name, evs, n);
	for (size_t i = 0; i < n; i++)
		if (fake.is_redis_away)
			c->on.on_claimed(c->on.arg, evs[i], CLAIM_UNKNOWN);
		else
			call(&takes, evs[i]);
}

void claim_renew(struct claim *c, struct event *const *evs, size_t n)
{
	note_call("renew", evs, n);
	for (size_t i = 0; i < n; i++)
		evs[i]->lease_ms = (int64_t)uv_now(c->loop);
}

void claim_release(struct claim *c, struct event *const *evs, size_t n)
{
	note_call("release", evs, n);
	for (size_t i = 0; i < n; i++)
		evs[i]->is_claimed = false;
}

void claim_mark(struct claim *c, struct event *ev, enum claim_mark mark)
{
	note_call(mark == CLAIM_MARK_DONE ? "done" : "dead", &ev, 1);
	ev->is_claimed &= !fake.is_redis_full;
}

void claim_set_database(struct claim *c, const char *id)
{
}

void claim_set_epoch(struct claim *c, uint32_t epoch)
{
}

uint64_t claim_unanswered(const struct claim *c)
{
	return fake.is_redis_away ? 0 : fake.unanswered + takes.count;
}

static void on_claim_closed(uv_handle_t *handle)
{
	the_claim.done(the_claim.done_arg);
}

void claim_close(struct claim *c, void (*done)(void *arg), void *arg)
{
	c->done = done;
	c->done_arg = arg;
	uv_close((uv_handle_t *)&c->handle, on_claim_closed);
}

/* --- store.h --- */

struct store *store_open(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks)
{
	struct store *s = fake.stores++ ? &the_second : &the_store;

	*s = (struct store){.on = *callbacks};
	uv_idle_init(loop, &s->handle);
	return s;
}

static bool is_idle(const struct store *s)
{
	if (s == &the_second)
		return !besides.count;
	return !fake.is_postgres_away && !inserts.count && !dead_letters.count && !s->is_noting && !fake.has_cursors &&
	       !fake.has_question;
}

struct store_view store_view(const struct store *s)
{
	return (struct store_view){
		.is_idle = is_idle(s),
		.is_ready = !fake.is_postgres_away,
		.is_sent = s == &the_second ? besides.count > 0
					    : !fake.is_postgres_failing && (inserts.count || dead_letters.count),
		.is_stalled = fake.is_postgres_away || fake.is_stalled,
		.why = fake.is_postgres_away ? "away" : "",
		.trouble = "trouble",
		.hazards = "",
		.holder = "",
	};
}

static void start(struct store *s, const char *name, struct calls *calls, const struct batch *b)
{
	cr_assert(is_idle(s), "%s while the store is at work", name);
	cr_assert_gt(b->count, 0, "%s of nothing", name);
	note_call(name, b->events, b->count);
	for (size_t i = 0; i < b->count; i++)
		call(calls, b->events[i]);
}

void store_insert(struct store *s, const struct batch *b)
{
	start(s, s == &the_second ? "beside" : "insert", s == &the_second ? &besides : &inserts, b);
}

void store_give_up(struct store *s)
{
	cr_assert_eq(s, &the_second);
	while (besides.count)
		s->on.on_stored(s->on.arg, besides.events[--besides.count], STORE_UNKNOWN, "gone");
}

void store_dead_letter(struct store *s, const struct batch *b)
{
	start(s, "dead_letter", &dead_letters, b);
}

bool store_is_sure(const struct store *s)
{
	return !fake.is_unsure;
}

int store_ask_epoch(struct store *s)
{
	cr_assert(is_idle(s), "a question while the store is at work");
	fake.is_epoch_asked = true;
	fake.is_unsure = fake.is_epoch_silent;
	return 0;
}

static void on_checkin(uv_idle_t *handle)
{
	if (fake.is_checkin_slow)
		return;
	uv_idle_stop(handle);
	the_store.is_noting = false;
	the_store.on.on_checked_in(the_store.on.arg, true, fake.note);
}

int store_checkin(struct store *s, const char *text)
{
	cr_assert(is_idle(s), "a note while the store is at work");
	s->is_noting = true;
	free(s->note);
	s->note = strdup(text);
	uv_idle_start(&s->handle, on_checkin);
	return 0;
}

int store_put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch)
{
	cr_assert(is_idle(s), "cursors while the store is at work");
	note("%scursors(", journal_len ? " " : "");
	for (size_t i = 0; i < cursors->count; i++)
		if (cursors->items[i].sent)
			note("%s=%.*s", cursors->items[i].cursor.source, (int)cursors->items[i].cursor.value.len,
			     cursors->items[i].cursor.value.at);
	note("@%u)", epoch);
	fake.has_cursors = true;
	return fake.is_postgres_away ? -1 : 0;
}

int store_read_cursors(struct store *s, const char *const *sources, size_t n)
{
	cr_assert(is_idle(s), "a question while the store is at work");
	for (size_t i = 0; i < n; i++)
		note("%sread(%s)", journal_len ? " " : "", sources[i]);
	fake.has_question = true;
	return 0;
}

void fake_answer_put(bool is_stored)
{
	cr_assert(fake.has_cursors, "no cursors wait for an answer");
	fake.has_cursors = false;
	the_store.on.on_cursors_put(the_store.on.arg, is_stored);
}

void fake_answer_read(const char *value, bool is_read)
{
	const struct cursor c = {.source = "kraken", .scope = "", .value = {value, strlen(value)}};

	cr_assert(fake.has_question, "no question for cursors waits for an answer");
	fake.has_question = false;
	if (is_read)
		the_store.on.on_cursor_read(the_store.on.arg, &c, true);
	the_store.on.on_cursor_read(the_store.on.arg, NULL, is_read);
}

void fake_answer_second_unusable(const char *sentence)
{
	the_second.on.on_unusable(the_second.on.arg, sentence, 2);
}

void fake_set_second_epoch(uint32_t epoch)
{
	the_second.on.on_epoch(the_second.on.arg, epoch);
}

void fake_set_epoch(uint32_t epoch)
{
	the_store.on.on_epoch(the_store.on.arg, epoch);
}

const char *fake_checkin(void)
{
	static char text[10000];

	if (!the_store.note)
		return NULL;
	snprintf(text, sizeof(text), "%s", the_store.note);
	free(the_store.note);
	the_store.note = NULL;
	return text;
}

static void on_store_closed(uv_handle_t *handle)
{
	struct store *s = handle->data;

	free(s->note);
	fake.stores--;
	s->done(s->done_arg);
}

void store_close(struct store *s, void (*done)(void *arg), void *arg)
{
	besides.count = 0;
	if (s == &the_store)
		inserts.count = dead_letters.count = 0;
	s->handle.data = s;
	s->done = done;
	s->done_arg = arg;
	uv_close((uv_handle_t *)&s->handle, on_store_closed);
}
