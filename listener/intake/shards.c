/* shards.c owns the list of a source that is divided among several connections, and changes it: first every connection
 * subscribes to its new items, and when all are ready, they drop the old ones. Meanwhile both connections receive an
 * item that moves. feed/shard.c divides the list; profiled.c has the connections. */
#include "intake/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "base/text.h"
#include "feed/secrets.h"
#include "feed/shard.h"
#include "intake/feed_call.h"

#define TICK_MS   1000
#define READY_IN  2 /* ticks in a row: by then all earlier messages on the old connections have arrived */
#define AGAIN_MS  30000
#define TELL_MS   60000
#define TALK_MS   600000 /* instead of TELL_MS while subscriptions are being sent, which send_rate_per_s slows down */
#define OTHERS_MS 40000  /* with --readers, time for the others to have the list, too, if their first call fails */

struct place {
	struct profile *profile;
	struct profiled *source;
	json_t *have; /* items to which its connection is subscribed */
	bool is_changed;
};

struct shards {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct requests *requests;
	const struct profile *profile;
	void (*on_change)(void *arg);
	void *arg;
	struct session *session; /* for the call's templates */
	struct secrets *secrets; /* not to be shown */
	struct request *request; /* NULL: none is running */
	int64_t ask_ms;          /* loop clock: next call */
	int64_t others_ms;       /* how long a change takes at least: the others may read what moves */
	struct log_spell failures;
	char trouble[SHARD_REASON + 100]; /* why the last list cannot be used, or that none has arrived yet */
	char waits[SHARD_REASON + 100];   /* why a change takes so long; see is_told */
	size_t wanted;                    /* connections that the list needs */
	unsigned int ready;               /* ticks in a row for which all were ready */
	int64_t since_ms;                 /* loop clock: when the last change began; 0: there is none */
	int64_t first_ms;                 /* when the first of the changes began that replaced each other */
	bool is_told;                     /* it has been logged that they take long */
	size_t count;
	struct place places[];
};

static int64_t now_ms(const struct shards *s)
{
	return (int64_t)uv_now(s->loop);
}

/* --- a change --- */

static void set_items(struct place *at, const json_t *items)
{
	shard_set(at->profile, (json_t *)items);
	json_decref(at->have);
	at->have = items ? json_copy((json_t *)items) : json_array();
}

static void begin_place(struct place *at, json_t *items, bool is_first)
{
	json_auto_t *fresh = NULL;

	if (at->is_changed && !profiled_view(at->source).is_told) /* it is connected anew, with these only */
		set_items(at, shard_items(at->profile));
	fresh = shard_without(items, at->have);
	at->profile->shard.is_joining = at->profile->shard.is_idle && !is_first;
	shard_set(at->profile, items);
	json_array_extend(at->have, fresh);
	at->is_changed = true;
	profiled_change(at->source, fresh);
}

static void end_place(struct place *at)
{
	const json_t *items = shard_items(at->profile);
	json_auto_t *gone = shard_without(at->have, items);

	profiled_turn(at->source, gone);
	set_items(at, items);
	at->is_changed = at->profile->shard.is_joining = false;
}

static void leave_place(struct place *at)
{
	at->is_changed = at->profile->shard.is_joining = false;
	set_items(at, NULL);
	profiled_change(at->source, NULL);
}

static bool is_same(const struct shards *s, const json_t *parts)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct profile *p = s->places[i].profile;
		const json_t *part = json_array_get(parts, i);

		if (part ? !json_equal(part, shard_items(p)) : !p->shard.is_idle)
			return false;
	}
	return true;
}

static void begin(struct shards *s, const json_t *parts)
{
	bool is_first = !s->wanted; /* no connection has items yet */

	if (is_same(s, parts))
		return;
	s->wanted = json_array_size(parts);
	s->first_ms = s->since_ms ? s->first_ms : now_ms(s);
	s->since_ms = now_ms(s);
	s->ready = 0;
	for (size_t i = 0; i < s->wanted; i++)
		if (!json_equal(json_array_get(parts, i), shard_items(s->places[i].profile)))
			begin_place(&s->places[i], json_array_get(parts, i), is_first);
	s->on_change(s->arg);
}

static void end(struct shards *s)
{
	s->since_ms = 0;
	s->is_told = false;
	for (size_t i = 0; i < s->count; i++)
		if (i >= s->wanted && !s->places[i].profile->shard.is_idle)
			leave_place(&s->places[i]);
		else if (s->places[i].is_changed)
			end_place(&s->places[i]);
	log_info("source has a new list", "source=%s connections=%zu", s->profile->name, s->wanted);
	s->on_change(s->arg);
}

/* A connection that is to be closed must not be behind: no other gets its unread messages. */
static bool is_ready(const struct shards *s, size_t i)
{
	const struct place *at = &s->places[i];

	return i < s->wanted ? profiled_is_changed(at->source) : !profiled_view(at->source).is_behind;
}

/* Tells that the change takes long because of a connection. */
static void tell_wait(struct shards *s, const struct place *at)
{
	const struct source_view v = profiled_view(at->source);
	const char *name = at->profile->name;
	bool is_talking = v.is_next_talking || (v.is_talking && !*v.error);
	const char *why = is_talking    ? "it has not subscribed to everything yet"
			  : *v.error    ? v.error
			  : v.is_behind ? "it has unread messages"
					: "the feed has not confirmed it";

	if (now_ms(s) - s->first_ms < (is_talking ? TALK_MS : TELL_MS))
		return;
	snprintf(s->waits, sizeof(s->waits), "%.90s is not ready for it: %s", name, why);
	if (!s->is_told)
		log_warn("a connection is not ready for the new list of a source, keeping the old ones, too",
			 "source=%s reason=%s", name, why);
	s->is_told = true;
}

static void look_at_change(struct shards *s)
{
	size_t i = 0;

	while (i < s->count && is_ready(s, i))
		i++;
	s->ready = i < s->count ? 0 : s->ready + 1;
	if (s->ready >= READY_IN && now_ms(s) - s->since_ms >= s->others_ms)
		end(s);
	else if (i < s->count)
		tell_wait(s, &s->places[i]);
}

/* --- lists --- */

static void refuse(struct shards *s, const char *why)
{
	char reason[SHARD_REASON + 100];
	int len = snprintf(reason, sizeof(reason), "%.90s: ", s->profile->name);

	snprintf(reason + len, sizeof(reason) - (size_t)len, "%s", why);
	secrets_read(s->secrets, s->profile->root);
	secrets_mask(s->secrets, reason);
	make_line(reason);
	log_spell_on(&s->failures, now_ms(s), "cannot use the list of a source, keeping the old one", reason);
	snprintf(s->trouble, sizeof(s->trouble), "%s", reason + len);
}

/* Takes ownership of parts. NULL: the list cannot be used, and why says so. */
static void take(struct shards *s, json_t *parts, const char *why)
{
	if (!parts) {
		refuse(s, why);
		return;
	}
	*s->trouble = '\0';
	log_spell_off(&s->failures, now_ms(s), "a source's list can be used again");
	begin(s, parts);
	json_decref(parts);
}

/* --- HTTP --- */

static json_t *read_answer(const struct shards *s, const struct request_answer *answer, char why[SHARD_REASON])
{
	const json_t *pointer = json_object_get(s->profile->shard.http->capture, s->profile->shard.var);
	struct slice list = {answer->body, answer->len};

	if (pointer && (json_check(answer->body, answer->len, &list) ||
			json_kind(list = json_find(list, json_string_value(pointer))) != KIND_ARRAY)) {
		snprintf(why, SHARD_REASON, "the answer has no array at %.100s", json_string_value(pointer));
		return NULL;
	}
	return shard_cut(s->profile, list, why);
}

/* All listeners ask at the same moments: an item that moves may be another one's from then on (--readers). */
static int64_t wait_for_moment(int64_t every_ms)
{
	return every_ms - clock_ms(CLOCK_REALTIME) % every_ms;
}

static void on_answer(void *arg, const struct request_answer *answer)
{
	struct shards *s = arg;
	int64_t every_ms = wait_for_moment(s->profile->shard.http->every_ms);
	char why[SHARD_REASON];
	json_t *parts = feed_call_succeeded(answer, why) ? read_answer(s, answer, why) : NULL;

	s->request = NULL;
	s->ask_ms = now_ms(s) + (parts || every_ms < AGAIN_MS ? every_ms : AGAIN_MS) + answer->wait_ms;
	take(s, parts, why);
}

static void ask(struct shards *s)
{
	char why[FEED_CALL_REASON];

	s->request = feed_call_send(s->requests, s->profile, s->session, s->profile->shard.http, on_answer, s, why);
	s->ask_ms = now_ms(s) + AGAIN_MS;
	if (!s->request)
		refuse(s, why);
}

static void on_tick(uv_timer_t *timer)
{
	struct shards *s = timer->data;

	if (s->since_ms)
		look_at_change(s);
	if (s->profile->shard.http && !s->request && now_ms(s) >= s->ask_ms)
		ask(s);
}

void shards_reload(struct shards *s)
{
	char why[SHARD_REASON];

	if (s->profile->shard.http) {
		s->ask_ms = 0;
		return;
	}
	json_t *parts = shard_load(s->profile, why);

	/* Somebody waits for the outcome of each SIGHUP. */
	log_spell_end(&s->failures, parts ? "a source's list can be used again" : NULL);
	take(s, parts, why);
}

const char *shards_trouble(const struct shards *s)
{
	return *s->trouble || !s->is_told ? s->trouble : s->waits;
}

/* --- life --- */

/* Returns 0, or -1 and why. */
static int set_first(struct shards *s, char why[SHARD_REASON])
{
	json_t *parts = shard_load(s->profile, why);

	s->wanted = json_array_size(parts);
	for (size_t i = 0; i < s->wanted; i++)
		set_items(&s->places[i], json_array_get(parts, i));
	json_decref(parts);
	return parts || !*why ? 0 : -1;
}

struct shards *shards_new(uv_loop_t *loop, struct requests *requests, const struct profile *p, bool has_readers,
			  void (*on_change)(void *arg), void *arg, char *error, size_t size)
{
	size_t count = (size_t)p->shard.most;
	int64_t half_ms = p->shard.http ? p->shard.http->every_ms / 2 : OTHERS_MS;
	struct shards *s = memory_calloc(1, sizeof(*s) + count * sizeof(s->places[0]));
	char why[SHARD_REASON];

	*s = (struct shards){.loop = loop, .requests = requests, .profile = p, .on_change = on_change, .arg = arg};
	if (has_readers)
		s->others_ms = half_ms < OTHERS_MS ? half_ms : OTHERS_MS;
	for (; s->count < count; s->count++)
		s->places[s->count] = (struct place){.profile = shard_profile(p, s->count + 1), .have = json_array()};
	if (set_first(s, why)) {
		snprintf(error, size, "the list of the source %s cannot be used: %s", p->name, why);
		shards_free(s);
		return NULL;
	}
	if (!s->wanted)
		snprintf(s->trouble, sizeof(s->trouble), "its list has not arrived yet");
	s->session = session_new(p, false);
	s->secrets = secrets_new();
	session_hide_secrets(s->session, s->secrets);
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	return s;
}

struct profile *shards_profile(const struct shards *s, size_t i)
{
	return s->places[i].profile;
}

void shards_start(struct shards *s, const struct profiles *all, size_t first)
{
	for (size_t i = 0; i < s->count; i++)
		s->places[i].source = profiles_at(all, first + i);
	uv_timer_start(&s->timer, on_tick, 0, TICK_MS);
}

void shards_close(struct shards *s)
{
	if (s->request)
		request_cancel(s->request);
	uv_close((uv_handle_t *)&s->timer, NULL);
}

void shards_free(struct shards *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++) {
		shard_free(s->places[i].profile);
		json_decref(s->places[i].have);
	}
	if (s->session)
		session_free(s->session);
	secrets_free(s->secrets);
	free(s);
}
