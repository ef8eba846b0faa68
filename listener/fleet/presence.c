/* presence.c reports this listener to the fleet through Redis, and reads what the others report. claiming.c decides
 * what follows, and the unique key has the last word: a wrong report only costs double work.
 *
 * Once a second, and more often while events wait for another listener, lua/presence.lua writes our report and returns
 * all reports of the last three seconds. When a process is killed, its kernel closes its connection within
 * milliseconds, so a listener that events wait for is dead as soon as its connection is no longer listed (CLIENT LIST
 * ID). A machine that froze or lost its network keeps its connection for a long time, but its reports stop. */
#include "fleet/presence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "presence.lua.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "fleet/reading.h"

#include <uthash.h> /* after memory.h, which defines its allocator */

#define BEAT_MS    1000
#define SOON_MS    100 /* least time between two beats, and time until the second one, which returns the others' first */
#define REFUSED_MS 3000 /* how long a report counts */
#define LEFT_MS    10000
#define HEARD_MS   5000 /* a source without a message for this long is no longer heard */
#define SETTLED_MS 4000 /* after connecting: a listener without a beat by then is dead */
/* Between two beats while events wait: 10 ms for each listener (so all send 100 a second), within these limits. */
#define ASK_MS      100
#define ASK_MOST_MS 400
#define ASK_MAX     16   /* listeners in one CLIENT LIST; the others follow in the next one */
#define WAIT_MS     2000 /* how long an event counts as waiting; longer than between two claims of it */
#define JUDGED_MS   1000 /* how long a known leader is remembered */
#define RUN_LEN     8
#define KEYS_MAX    8

/* A source that has brought messages. */
struct source {
	const char *name; /* the key of the table is this pointer, not the text */
	uint64_t id;
	size_t dialled; /* its number in reading.h */
	int64_t heard_ms;
	int64_t left_ms; /* loop clock, until when others should lead; 0: never */
	bool is_told;    /* our last beat contained it */
	uint64_t known_at;
	int64_t judged_ms;
	bool has_other_leader; /* at judged_ms */
	UT_hash_handle hh;
};

struct presence {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct readings *readings;
	struct redis *redis;  /* NULL: away */
	const char *prefix;   /* the claim prefix of the settings */
	char *keys[KEYS_MAX]; /* our key, and those of prefixes that ours begins with */
	size_t key_count;
	char *name;
	uint64_t seed;
	enum peer_state state;
	char trouble[200]; /* "": none */
	char database[40]; /* id of our database; "": unknown */
	bool was_ours;     /* the prefix was once found free; only then do beats contain our database */
	bool is_foreign;
	presence_gone_cb *on_gone;
	presence_foreign_cb *on_foreign;
	void *arg;
	struct source *sources, *last; /* the table, and the last one found */
	struct roster roster;
	uint64_t changes; /* counts changes in what is known about the others */
	size_t turn;      /* where the next CLIENT LIST starts */
	uint16_t asked[ASK_MAX];
	size_t asked_count; /* listeners in the pending CLIENT LIST; 0: none */
	bool is_beating;    /* a beat is pending */
	bool may_list;      /* CLIENT LIST is allowed, as far as known since Redis was last ready */
	struct log_spell refusals;
	bool has_error_logged;
	int64_t beat_ms;     /* loop clock: last beat */
	int64_t due_ms;      /* loop clock: next beat */
	int64_t ready_ms;    /* loop clock: when we connected */
	int64_t answered_ms; /* loop clock: last beat without an error */
	struct bytes command;
	struct ending ending;
};

static void on_timer(uv_timer_t *timer);

static int64_t now_ms(const struct presence *p)
{
	return (int64_t)uv_now(p->loop);
}

/* --- sources --- */

static struct source *find_source(struct presence *p, const char *name)
{
	struct source *s = p->last;

	if (s && s->name == name)
		return s;
	HASH_FIND_PTR(p->sources, &name, s);
	if (!s) {
		s = memory_calloc(1, sizeof(*s));
		s->name = name;
		s->dialled = readings_find(p->readings, name);
		s->id = s->dialled < readings_count(p->readings) ? readings_id(p->readings, s->dialled)
								 : hash_text(name, strlen(name));
		HASH_ADD_PTR(p->sources, name, s);
	}
	p->last = s;
	return s;
}

static bool is_heard(const struct presence *p, const struct source *s)
{
	return s->heard_ms && now_ms(p) - s->heard_ms <= HEARD_MS;
}

static void set_due(struct presence *p, int64_t due_ms)
{
	p->due_ms = due_ms;
	uv_timer_start(&p->timer, on_timer, due_ms > now_ms(p) ? (uint64_t)(due_ms - now_ms(p)) : 0, 0);
}

/* Makes the next beat due no later than this. */
static void hasten(struct presence *p, int64_t due_ms)
{
	if (p->redis && p->due_ms > due_ms)
		set_due(p, due_ms);
}

void presence_hear(struct presence *p, const char *source)
{
	struct source *s = find_source(p, source);

	s->heard_ms = now_ms(p);
	if (!s->is_told)
		hasten(p, p->beat_ms + SOON_MS);
}

void presence_leave_lead(struct presence *p, const char *source)
{
	find_source(p, source)->left_ms = now_ms(p) + LEFT_MS;
	hasten(p, p->beat_ms + SOON_MS);
}

/* --- the leader --- */

static struct peer *leader_of(struct presence *p, const struct source *s)
{
	return roster_leader(&p->roster, s->id, p->seed, now_ms(p));
}

bool presence_has_other_leader(struct presence *p, const char *source)
{
	struct source *s = find_source(p, source);

	if (s->known_at != p->changes || now_ms(p) - s->judged_ms >= JUDGED_MS) {
		s->known_at = p->changes;
		s->judged_ms = now_ms(p);
		s->has_other_leader = p->state == PEER_WORKING && leader_of(p, s);
	}
	return s->has_other_leader;
}

bool presence_knew_leader(struct presence *p, const char *source, int64_t ms)
{
	const struct peer *leader = leader_of(p, find_source(p, source));

	return leader && leader->since_ms <= ms;
}

static void suspect(struct presence *p, struct peer *peer)
{
	peer->suspect_ms = now_ms(p);
	p->changes++;
}

void presence_suspect_leader(struct presence *p, const char *source)
{
	struct peer *leader = leader_of(p, find_source(p, source));

	if (leader)
		suspect(p, leader);
}

/* --- claims --- */

uint16_t presence_find(struct presence *p, const char *value, size_t len)
{
	const char *at = memrchr(value, '@', len);

	return roster_find(&p->roster, value, at ? (size_t)(at + 1 - value) : 0, now_ms(p));
}

const char *presence_name(struct presence *p, uint16_t listener)
{
	const struct peer *peer = roster_peer(&p->roster, listener);

	return peer ? peer->name : "";
}

static int64_t ask_ms(const struct presence *p)
{
	int64_t ms = 10 * (int64_t)roster_alive(&p->roster);

	return ms < ASK_MS ? ASK_MS : ms > ASK_MOST_MS ? ASK_MOST_MS : ms;
}

static void wait_for(struct presence *p, struct peer *peer)
{
	peer->waited_ms = now_ms(p);
	hasten(p, p->beat_ms + ask_ms(p));
}

void presence_wait_for(struct presence *p, uint16_t listener)
{
	struct peer *peer = roster_peer(&p->roster, listener);

	if (peer && p->redis)
		wait_for(p, peer);
}

void presence_wait_for_leader(struct presence *p, const char *source)
{
	struct peer *leader = leader_of(p, find_source(p, source));

	if (leader && p->redis)
		wait_for(p, leader);
}

static bool is_waited_for(const struct presence *p, const struct peer *peer)
{
	return peer->waited_ms && now_ms(p) - peer->waited_ms <= WAIT_MS && peer->seed != p->seed;
}

/* --- whether the others are there --- */

static void gone(struct presence *p, uint16_t listener)
{
	suspect(p, roster_peer(&p->roster, listener));
	p->on_gone(p->arg, listener);
}

/* The answer has a line for each existing connection. */
static bool is_listed(const char *list, const char *id)
{
	size_t len = strlen(id);

	for (const char *at = list; (at = strstr(at, "id=")); at += 3)
		if ((at == list || at[-1] == '\n') && strncmp(at + 3, id, len) == 0 && at[3 + len] == ' ')
			return true;
	return false;
}

static void log_forbidden(struct presence *p, const char *reason)
{
	log_write(p->has_error_logged ? LOG_DEBUG : LOG_WARN,
		  "redis does not say which clients are connected (CLIENT LIST): claims of a killed listener are taken "
		  "over after three seconds, not at once",
		  "reason=%s", reason);
	p->has_error_logged = true;
	p->may_list = false;
}

/* Returns the id of its connection if it is connected to our server, else NULL: ids of another server mean nothing. */
static const char *connection_of(const struct presence *p, const struct peer *peer)
{
	const char *own = p->redis ? redis_client(p->redis) : "", *id = peer->client + RUN_LEN + 1;

	if (strlen(own) <= RUN_LEN || strncmp(peer->client, own, RUN_LEN + 1) != 0 || !*id ||
	    id[strspn(id, "0123456789")])
		return NULL;
	return id;
}

static void on_list(void *owner, void *arg, const struct redis_reply *reply)
{
	struct presence *p = arg;
	size_t n = p->asked_count;

	(void)owner;
	p->asked_count = 0;
	if (reply && reply->type == REPLY_ERROR)
		log_forbidden(p, reply->str);
	if (!reply || reply->type != REPLY_STRING)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct peer *peer = roster_peer(&p->roster, p->asked[i]);
		const char *id = connection_of(p, peer);

		if (id && peer->is_alive && !is_listed(reply->str, id))
			gone(p, p->asked[i]);
	}
}

/* Asks for the connections of the listeners that events wait for. */
static void list(struct presence *p)
{
	size_t n = 0, seen = 0;

	if (!p->may_list || !p->redis || p->asked_count)
		return;
	for (; seen < p->roster.count && n < ASK_MAX; seen++) {
		uint16_t number = (uint16_t)((p->turn + seen) % p->roster.count + 1);
		const struct peer *peer = roster_peer(&p->roster, number);

		if (is_waited_for(p, peer) && peer->is_alive && connection_of(p, peer))
			p->asked[n++] = number;
	}
	p->turn += seen;
	if (!n)
		return;
	resp_start(&p->command, 3 + n);
	resp_words(&p->command, "CLIENT", "LIST", "ID");
	for (size_t i = 0; i < n; i++)
		resp_word(&p->command, connection_of(p, roster_peer(&p->roster, p->asked[i])));
	if (redis_send(p->redis, p->command.at, p->command.len, on_list, p) == 0)
		p->asked_count = n;
}

/* A listener without beats is dead, unless Redis has lost all reports. */
static void judge_silent(struct presence *p)
{
	if (now_ms(p) - p->ready_ms < SETTLED_MS)
		return;
	for (size_t i = 0; i < p->roster.count; i++)
		if (is_waited_for(p, &p->roster.peers[i]) && !p->roster.peers[i].is_alive)
			gone(p, (uint16_t)(i + 1));
}

/* --- another database with our prefix --- */

static void find_foreign(struct presence *p, const char *database)
{
	char sentence[600];

	snprintf(sentence, sizeof(sentence),
		 "in this Redis the listeners of another database, with the id %.40s, use --claim-prefix %.300s or its "
		 "beginning; choose another prefix, or stop them",
		 database, p->prefix);
	redis_mask(p->redis, sentence);
	if (!p->is_foreign && !p->was_ours)
		p->on_foreign(p->arg, sentence);
	if (!p->is_foreign)
		log_warn("not using redis; the unique key decides", "reason=%s", sentence);
	p->is_foreign = true;
}

/* Reports our database only once it is known that no other one uses the prefix, so that a process started by mistake
 * does not disturb the fleet. */
static void judge_database(struct presence *p, const char *other)
{
	if (!*p->database || !p->redis)
		return;
	if (*other) {
		find_foreign(p, other);
		return;
	}
	if (p->is_foreign)
		log_info("using redis again", "prefix=%s", p->prefix);
	if (!p->was_ours)
		hasten(p, p->beat_ms + SOON_MS);
	p->is_foreign = false;
	p->was_ours = true;
}

void presence_set_database(struct presence *p, const char *id)
{
	if (strcmp(p->database, id) == 0)
		return;
	snprintf(p->database, sizeof(p->database), "%s", id);
	hasten(p, now_ms(p));
}

bool presence_is_foreign(const struct presence *p)
{
	return p->is_foreign;
}

/* --- beats --- */

bool presence_is_refused(const struct presence *p)
{
	return p->redis && p->refusals.times && now_ms(p) - p->ready_ms > REFUSED_MS &&
	       now_ms(p) - p->answered_ms > REFUSED_MS;
}

static void on_refused(struct presence *p, const char *reason)
{
	log_spell_on(&p->refusals, now_ms(p), "redis rejects the beat: this listener acts as if it were alone", reason);
	roster_begin(&p->roster);
}

/* A listener with our own name is the process that this one replaces. It may already be dead, and must not lead. */
static void note(struct presence *p, const struct redis_reply *name, const struct redis_reply *said)
{
	struct peer *peer = roster_peer(&p->roster, roster_find(&p->roster, name->str, name->len, now_ms(p)));
	bool is_new = peer && !*peer->client;

	roster_note(&p->roster, name->str, name->len, said->str, said->len, now_ms(p));
	if (is_new && peer->reader_seed == roster_reader_seed(p->name, strlen(p->name)))
		wait_for(p, peer);
}

static void read_answer(struct presence *p, const struct redis_reply *reply)
{
	char database[40], other[40] = "";
	bool is_ending = false;

	roster_begin(&p->roster);
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		const struct redis_reply *name = &reply->element[i], *said = name + 1;

		if (name->type != REPLY_STRING || said->type != REPLY_STRING)
			continue;
		note(p, name, said);
		if (roster_other_database(said->str, said->len, p->database, database))
			is_ending = true;
		else if (*database)
			memcpy(other, database, sizeof(other));
	}
	/* A process that another one replaces, with another database, still counts for three seconds. */
	if (*other || !is_ending)
		judge_database(p, other);
	if (!p->is_foreign)
		readings_judge(p->readings, &p->roster, p->beat_ms, now_ms(p), !*p->trouble);
}

static void on_answer(void *owner, void *arg, const struct redis_reply *reply)
{
	struct presence *p = arg;

	(void)owner;
	p->is_beating = false;
	if (!reply)
		return;
	p->changes++;
	if (reply->type != REPLY_ARRAY) {
		on_refused(p, reply->type == REPLY_ERROR ? reply->str : "an answer of another type");
		return;
	}
	log_spell_off(&p->refusals, now_ms(p), "redis takes the beat again");
	p->answered_ms = now_ms(p);
	read_answer(p, reply);
	judge_silent(p);
	list(p);
}

/* In the format that roster_note() reads. */
static char *describe(struct presence *p)
{
	const char *client = redis_client(p->redis), *database = p->was_ours ? p->database : "-";
	char state = "wpd"[p->state];
	size_t sources = HASH_COUNT(p->sources) + readings_count(p->readings);
	size_t size = 160 + ROSTER_HEARD_SIZE * sources + sizeof(p->trouble);
	char *text = memory_alloc(size), *at = text;

	at += snprintf(text, size, "2 %s %c %s %s ", *client ? client : "-", state, database, WSONCE_VERSION);
	for (struct source *s = p->sources; s; s = s->hh.next) {
		s->is_told = is_heard(p, s);
		if (!s->is_told || now_ms(p) < s->left_ms ||
		    (s->dialled < readings_count(p->readings) && readings_may_lead(p->readings, s->dialled)))
			continue;
		roster_write(at, &(struct heard){.id = s->id, .may_lead = true});
		at += ROSTER_HEARD_SIZE;
	}
	at = readings_write(p->readings, at, now_ms(p));
	snprintf(at, size - (size_t)(at - text), "\n%s", p->trouble);
	return text;
}

static void beat(struct presence *p)
{
	char *text;

	if (p->is_beating || !p->redis)
		return;
	text = describe(p);
	p->beat_ms = now_ms(p);
	resp_start(&p->command, 6 + p->key_count);
	resp_words(&p->command, "EVAL", LUA_PRESENCE);
	resp_number(&p->command, (int64_t)p->key_count);
	for (size_t i = 0; i < p->key_count; i++)
		resp_word(&p->command, p->keys[i]);
	resp_words(&p->command, p->name, text, PRESENCE_ALIVE_MS);
	p->is_beating = redis_send(p->redis, p->command.at, p->command.len, on_answer, p) == 0;
	free(text);
}

static void on_timer(uv_timer_t *timer)
{
	struct presence *p = timer->data;
	int64_t ms = p->is_beating ? SOON_MS : BEAT_MS; /* a pending beat: try again soon */

	for (size_t i = 0; i < p->roster.count; i++)
		if (is_waited_for(p, &p->roster.peers[i]))
			ms = ask_ms(p);
	set_due(p, now_ms(p) + ms);
	readings_tick(p->readings, now_ms(p));
	beat(p);
}

void presence_say(struct presence *p, const char *trouble)
{
	snprintf(p->trouble, sizeof(p->trouble), "%s", trouble);
}

bool presence_has_trouble(const struct presence *p)
{
	return roster_has_trouble(&p->roster);
}

bool presence_has_able(const struct presence *p, const char *source)
{
	size_t i = readings_find(p->readings, source);

	return i < readings_count(p->readings) && roster_has_able(&p->roster, readings_id(p->readings, i));
}

void presence_set_state(struct presence *p, enum peer_state state)
{
	if (p->state == PEER_DRAINING)
		return;
	p->state = state;
	p->changes++;
	hasten(p, now_ms(p));
}

void presence_set_redis(struct presence *p, struct redis *redis)
{
	p->redis = redis;
	p->ready_ms = now_ms(p);
	p->may_list = true;
	if (!redis)
		return;
	beat(p);
	set_due(p, now_ms(p) + SOON_MS);
}

/* --- life --- */

struct readings *presence_readings(struct presence *p)
{
	return p->readings;
}

/* Names the keys of all prefixes that ours begins with: with prefixes a: and a:b:, two ids can have the same key. */
static void name_keys(struct presence *p)
{
	const char *prefix = p->prefix, *end = strrchr(prefix, ':');

	p->keys[p->key_count++] = memory_printf(PRESENCE_KEY_PREFIX "%s", prefix);
	for (const char *at = strchr(prefix, ':'); at && at < end && p->key_count < KEYS_MAX; at = strchr(at + 1, ':'))
		p->keys[p->key_count++] = memory_printf(PRESENCE_KEY_PREFIX "%.*s", (int)(at + 1 - prefix), prefix);
}

struct presence *presence_open(uv_loop_t *loop, const struct config *config, const char *name,
			       presence_gone_cb *on_gone, presence_foreign_cb *on_foreign, void *arg)
{
	struct presence *p = memory_calloc(1, sizeof(*p));

	p->loop = loop;
	p->readings = readings_new(config, name, now_ms(p));
	p->prefix = config->claim_prefix;
	name_keys(p);
	p->name = memory_strdup(name);
	p->seed = hash_text(name, strlen(name));
	p->on_gone = on_gone;
	p->on_foreign = on_foreign;
	p->arg = arg;
	p->changes = 1;
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	set_due(p, now_ms(p) + BEAT_MS);
	return p;
}

static void release(void *object)
{
	struct presence *p = object;
	struct source *s, *next;

	HASH_ITER(hh, p->sources, s, next)
	{
		HASH_DEL(p->sources, s);
		free(s);
	}
	readings_free(p->readings);
	for (size_t i = 0; i < p->key_count; i++)
		free(p->keys[i]);
	roster_free(&p->roster);
	bytes_free(&p->command);
	free(p->name);
	free(p);
}

void presence_close(struct presence *p, void (*done)(void *arg), void *arg)
{
	ending_begin(&p->ending, 1, release, p, done, arg);
	ending_close(&p->ending, &p->timer);
}
