/* owners.c owns the knowledge of who else has claims, and of which of those are dead. What becomes of their claims is
 * pipeline_claim.c's business.
 *
 * Each instance tells Redis once a second which connection it has to which server: a key that lasts three seconds. An
 * instance that waits for an owner asks, ten times a second, for that key, and then whether the connection is still
 * there: Redis learns of a killed process's end from its kernel, within milliseconds. A machine that froze or lost its
 * network has its connection for long, but not the key. Being wrong costs no more than work done twice, since the
 * unique key decides; yet only who is heard itself judges by a key that is missing, since Redis may have lost all. */
#include "road/owners.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "redis/reply.h"
#include "redis/resp.h"

#define KEY_PREFIX   OWNERS_KEY_PREFIX
#define BEAT_MS      1000
#define ALIVE_MS     "3000"
#define HEARD_MS     1500 /* so long ago our own beat may have been, for us to judge others by theirs; */
#define SETTLED_MS   4000 /* and so long ago our connection was made: by then all others beat again */
#define ASK_MS       100  /* between two questions, or 10 ms for each listener: a hundred a second in all, */
#define ASK_MOST_MS  400  /* until this is reached */
#define ASK_MAX      16   /* owners in one question; the others have their turn in the next one */
#define WAIT_MS      2000 /* since an event was last seen to wait; more than between two of its claims */
#define OWNERS_MAX   256  /* a further one takes the place of that which was met longest ago */
#define NAME_MAX_LEN 300  /* of an instance id, its nonce and @; longer ones are not ours */
#define RUN_LEN      8

struct owner {
	char *name; /* NULL: no owner yet */
	size_t len;
	int64_t met_ms;    /* loop clock */
	int64_t waited_ms; /* loop clock: an event waited for it then; 0: never */
};

struct asked {
	uint16_t owner;
	char id[24]; /* of its connection; "": not known, or of another server */
};

struct owners {
	uv_loop_t *loop;
	uv_timer_t beat_timer;
	uv_timer_t ask_timer; /* runs while somebody is waited for */
	struct redis *redis;  /* NULL: away */
	char *name;
	char trouble[200]; /* "": none */
	owner_gone_cb *on_gone;
	void *arg;
	struct owner owners[OWNERS_MAX];
	size_t count;
	size_t last; /* found: most claims in a row are of few owners */
	size_t listeners;
	size_t turn; /* where the next question begins */
	struct asked asked[ASK_MAX];
	size_t asked_count; /* of the question on its way; 0: there is none */
	bool may_list;      /* as far as is known, since Redis was last ready */
	bool has_error_logged;
	int64_t ready_ms; /* loop clock, of our connection */
	int64_t heard_ms; /* loop clock, of the last beat that Redis has confirmed; 0: none since then */
	struct resp command;
	int open;
	void (*done)(void *arg);
	void *done_arg;
};

static int64_t now_ms(const struct owners *o)
{
	return (int64_t)uv_now(o->loop);
}

/* --- who they are --- */

static bool is_owner(const struct owner *w, const char *name, size_t len)
{
	return w->len == len && memcmp(w->name, name, len) == 0;
}

/* A place for one that is met first. */
static size_t find_place(struct owners *o)
{
	size_t oldest = 0;

	if (o->count < OWNERS_MAX)
		return o->count++;
	for (size_t i = 1; i < o->count; i++)
		if (o->owners[i].met_ms < o->owners[oldest].met_ms)
			oldest = i;
	return oldest;
}

static void add(struct owners *o, const char *name, size_t len)
{
	struct owner *w = &o->owners[o->last = find_place(o)];

	free(w->name);
	*w = (struct owner){.name = memory_printf("%.*s", (int)len, name), .len = len};
}

uint16_t owners_find(struct owners *o, const char *value, size_t value_len)
{
	const char *at = memrchr(value, '@', value_len);
	size_t len = at ? (size_t)(at + 1 - value) : 0;

	if (!len || len > NAME_MAX_LEN || memchr(value, '\0', len))
		return 0;
	for (size_t i = 0; i < o->count && !(o->last < o->count && is_owner(&o->owners[o->last], value, len)); i++)
		o->last = i;
	if (o->last >= o->count || !is_owner(&o->owners[o->last], value, len))
		add(o, value, len);
	o->owners[o->last].met_ms = now_ms(o);
	return (uint16_t)(o->last + 1);
}

const char *owners_name(const struct owners *o, uint16_t owner)
{
	return owner && owner <= o->count ? o->owners[owner - 1].name : "";
}

/* --- that we are there --- */

static void put_key(struct owners *o, const char *name)
{
	resp_joined(&o->command, KEY_PREFIX, strlen(KEY_PREFIX), name, strlen(name));
}

static void on_beat_answer(void *owner, void *arg, const struct redis_reply *reply)
{
	struct owners *o = arg;

	(void)owner;
	if (reply && reply->type != REPLY_ERROR)
		o->heard_ms = now_ms(o);
}

static void put(struct owners *o, const char *suffix, const char *value)
{
	char *name = memory_printf("%s%s", o->name, suffix);

	resp_start(&o->command, 5);
	resp_word(&o->command, "SET");
	put_key(o, name);
	free(name);
	resp_word(&o->command, value);
	resp_word(&o->command, "PX");
	resp_word(&o->command, ALIVE_MS);
	redis_send(o->redis, o->command.bytes, o->command.len, on_beat_answer, o);
}

static void beat(struct owners *o)
{
	const char *client = redis_client(o->redis);

	put(o, "", *client ? client : "-");
	if (*o->trouble)
		put(o, OWNERS_TROUBLE, o->trouble);
}

void owners_say(struct owners *o, const char *trouble)
{
	snprintf(o->trouble, sizeof(o->trouble), "%s", trouble);
}

static void on_beat(uv_timer_t *timer)
{
	struct owners *o = timer->data;

	if (o->redis)
		beat(o);
}

void owners_set_redis(struct owners *o, struct redis *redis)
{
	o->redis = redis;
	o->heard_ms = 0;
	o->ready_ms = now_ms(o);
	o->may_list = true;
	if (!redis) {
		uv_timer_stop(&o->beat_timer);
		uv_timer_stop(&o->ask_timer);
		return;
	}
	beat(o);
	uv_timer_start(&o->beat_timer, on_beat, BEAT_MS, BEAT_MS);
}

/* --- whether they are there --- */

static bool may_judge(const struct owners *o)
{
	return o->heard_ms && now_ms(o) - o->heard_ms <= HEARD_MS && now_ms(o) - o->ready_ms >= SETTLED_MS;
}

/* The answer has a line for each connection that is there. */
static bool is_listed(const char *list, const char *id)
{
	size_t len = strlen(id);

	for (const char *at = list; (at = strstr(at, "id=")); at += 3)
		if ((at == list || at[-1] == '\n') && strncmp(at + 3, id, len) == 0 && at[3 + len] == ' ')
			return true;
	return false;
}

static void log_forbidden(struct owners *o, const char *reason)
{
	log_write(
		o->has_error_logged ? LOG_DEBUG : LOG_WARN,
		"redis does not tell which clients are connected (CLIENT LIST): claims of a killed listener are taken "
		"over after three seconds, not at once",
		"reason=%s", reason);
	o->has_error_logged = true;
	o->may_list = false;
}

static void on_list(void *owner, void *arg, const struct redis_reply *reply)
{
	struct owners *o = arg;
	size_t n = o->asked_count;

	(void)owner;
	o->asked_count = 0;
	if (reply && reply->type == REPLY_ERROR)
		log_forbidden(o, reply->str);
	if (!reply || reply->type != REPLY_STRING)
		return;
	for (size_t i = 0; i < n; i++)
		if (*o->asked[i].id && !is_listed(reply->str, o->asked[i].id))
			o->on_gone(o->arg, o->asked[i].owner);
}

/* Asks for the connections that are known. Returns false if there are none, or they cannot be asked for. */
static bool list(struct owners *o)
{
	size_t ids = 0;

	for (size_t i = 0; i < o->asked_count; i++)
		ids += *o->asked[i].id != '\0';
	if (!ids || !o->may_list || !o->redis)
		return false;
	resp_start(&o->command, 3 + ids);
	resp_word(&o->command, "CLIENT");
	resp_word(&o->command, "LIST");
	resp_word(&o->command, "ID");
	for (size_t i = 0; i < o->asked_count; i++)
		if (*o->asked[i].id)
			resp_word(&o->command, o->asked[i].id);
	return redis_send(o->redis, o->command.bytes, o->command.len, on_list, o) == 0;
}

/* <run>.<id>, as redis_client() says it. The ids of another server mean nothing here. */
static void read_beat(struct owners *o, struct asked *a, const struct redis_reply *beat)
{
	const char *client = o->redis ? redis_client(o->redis) : "";

	if (beat->type == REPLY_STRING && *client && beat->len > RUN_LEN + 1 &&
	    strspn(beat->str + RUN_LEN + 1, "0123456789") == beat->len - RUN_LEN - 1 &&
	    strncmp(beat->str, client, RUN_LEN + 1) == 0)
		snprintf(a->id, sizeof(a->id), "%s", beat->str + RUN_LEN + 1);
}

static void on_beats(void *owner, void *arg, const struct redis_reply *reply)
{
	struct owners *o = arg;
	bool is_whole = reply && reply->type == REPLY_ARRAY && reply->elements == o->asked_count;

	(void)owner;
	for (size_t i = 0; is_whole && i < o->asked_count; i++) {
		if (reply->element[i]->type != REPLY_NIL)
			read_beat(o, &o->asked[i], reply->element[i]);
		else if (may_judge(o))
			o->on_gone(o->arg, o->asked[i].owner);
	}
	if (!list(o))
		o->asked_count = 0;
}

static bool is_waited_for(const struct owners *o, const struct owner *w)
{
	return w->waited_ms && now_ms(o) - w->waited_ms <= WAIT_MS;
}

static size_t choose(struct owners *o)
{
	size_t n = 0, seen = 0;

	for (; seen < o->count && n < ASK_MAX; seen++) {
		size_t i = (o->turn + seen) % o->count;

		if (is_waited_for(o, &o->owners[i]))
			o->asked[n++] = (struct asked){.owner = (uint16_t)(i + 1)};
	}
	o->turn += seen;
	return n;
}

static void on_ask(uv_timer_t *timer)
{
	struct owners *o = timer->data;

	if (o->asked_count)
		return;
	o->asked_count = choose(o);
	if (!o->asked_count) {
		uv_timer_stop(timer);
		return;
	}
	resp_start(&o->command, 1 + o->asked_count);
	resp_word(&o->command, "MGET");
	for (size_t i = 0; i < o->asked_count; i++)
		put_key(o, owners_name(o, o->asked[i].owner));
	if (redis_send(o->redis, o->command.bytes, o->command.len, on_beats, o))
		o->asked_count = 0;
}

void owners_set_fleet(struct owners *o, size_t listeners)
{
	o->listeners = listeners;
}

static uint64_t ask_ms(const struct owners *o)
{
	uint64_t ms = 10 * o->listeners;

	return ms < ASK_MS ? ASK_MS : ms > ASK_MOST_MS ? ASK_MOST_MS : ms;
}

void owners_wait(struct owners *o, uint16_t owner)
{
	if (!owner || owner > o->count || !o->redis)
		return;
	o->owners[owner - 1].waited_ms = now_ms(o);
	if (!uv_is_active((uv_handle_t *)&o->ask_timer))
		uv_timer_start(&o->ask_timer, on_ask, 1, ask_ms(o));
}

/* --- life --- */

struct owners *owners_open(uv_loop_t *loop, const char *name, owner_gone_cb *on_gone, void *arg)
{
	struct owners *o = memory_calloc(1, sizeof(*o));

	o->loop = loop;
	o->name = memory_strdup(name);
	o->on_gone = on_gone;
	o->arg = arg;
	uv_timer_init(loop, &o->beat_timer);
	uv_timer_init(loop, &o->ask_timer);
	o->beat_timer.data = o->ask_timer.data = o;
	return o;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct owners *o = handle->data;
	void (*done)(void *arg) = o->done;
	void *done_arg = o->done_arg;

	if (--o->open)
		return;
	for (size_t i = 0; i < o->count; i++)
		free(o->owners[i].name);
	resp_free(&o->command);
	free(o->name);
	free(o);
	done(done_arg);
}

void owners_close(struct owners *o, void (*done)(void *arg), void *arg)
{
	o->done = done;
	o->done_arg = arg;
	o->open = 2;
	uv_close((uv_handle_t *)&o->beat_timer, on_timer_closed);
	uv_close((uv_handle_t *)&o->ask_timer, on_timer_closed);
}
