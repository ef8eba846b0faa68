/* readers.c owns which sources this listener reads, where --readers says how many listeners do. Each of them tells each
 * second in Redis that it is alive and what it reads; from what the others tell, each finds out its own turns.
 *
 * Readers of a source are the first of all that are alive by rendezvous hashing of source and instance (see roster.h),
 * so that all who know the same listeners find the same ones, and one that leaves hands its sources out evenly. What a
 * listener knows may be three seconds old, though, and others may know something else. So whoever may be a reader
 * reads: if anything that it was told in the last ten seconds says so, or if nobody tells it anything. And it hangs up
 * only if it has just been told that each reader has had a connection for five seconds which brings messages, if there
 * are any. Thus each failure of a reader costs one of its connections, and tests/model/readers.pml has the proof. */
#include "road/readers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "redis/connection.h"
#include "redis/reply.h"
#include "redis/resp.h"

#define KEY_PREFIX "wsonce:readers:"
#define BEAT_MS    1000
#define ALIVE_MS   "3000" /* what a heartbeat is worth to the others */
#define FRESH_MS   2000   /* an answer that took longer says nothing of now */
#define TURN_MS    10000  /* a turn counts for so long */
#define LOST_MS    5000   /* without an answer, after which everybody reads */
#define PROVED_S   5      /* for so long a reader must have had its connection */
#define LEAVE_MS   300    /* in which the others can be told */

struct turn {
	uint64_t id;
	size_t place; /* among all, by id: its name in heartbeats */
	bool is_ours;
	int64_t ours_ms; /* loop clock, when that was last known */
	uint64_t connection;
	int64_t since_ms; /* loop clock, when connection was first seen */
};

/* Another listener, as its heartbeat says. */
struct member {
	uint64_t nonce;
	uint64_t seed;
	const char *readings; /* "PLACE:SECONDS" or "PLACE:SECONDSr", each with a blank before it; r: it has brought
				 messages */
};

struct readers {
	uv_loop_t *loop;
	struct readers_owner owner;
	uv_timer_t timer;
	struct redis *redis;
	size_t readers; /* wanted of each source */
	char *key;
	uint64_t nonce;
	uint64_t seed;
	char *told; /* our heartbeat that is there now; NULL: none */
	struct resp command;
	bool has_known;
	bool is_asking;
	bool is_closing;
	bool has_error_logged;
	int open;         /* parts left to close */
	int64_t asked_ms; /* loop clock */
	int64_t known_ms; /* loop clock, when the last answer was asked for */
	size_t count;
	struct turn turns[];
};

static int64_t now_ms(const struct readers *r)
{
	return (int64_t)uv_now(r->loop);
}

static void set_turn(struct readers *r, struct turn *t, bool is_ours)
{
	if (t->is_ours == is_ours)
		return;
	t->is_ours = is_ours;
	r->owner.on_turn(r->owner.arg, (size_t)(t - r->turns), is_ours);
}

static void take_turn(struct readers *r, struct turn *t)
{
	t->ours_ms = now_ms(r);
	set_turn(r, t, true);
}

bool readers_know(const struct readers *r)
{
	return r->has_known;
}

/* --- what the others tell --- */

static bool read_member(struct member *m, const struct redis_reply *text)
{
	char *end;

	if (text->type != REPLY_STRING)
		return false;
	m->nonce = strtoull(text->str, &end, 16);
	m->seed = strtoull(end, &end, 16);
	m->readings = end;
	return m->seed;
}

/* Of a listener that has two heartbeats there, the later one counts: Redis has them in that order. */
static size_t read_members(const struct readers *r, const struct redis_reply *reply, struct member *members)
{
	size_t n = 0;

	for (size_t i = 0; i < reply->elements; i++) {
		struct member m;
		size_t at = 0;

		if (!read_member(&m, reply->element[i]) || m.nonce == r->nonce)
			continue;
		while (at < n && members[at].nonce != m.nonce)
			at++;
		members[at] = m;
		n += at == n;
	}
	return n;
}

/* How many come before one with this score. */
static size_t rank(const struct member *members, size_t n, uint64_t id, uint64_t own)
{
	size_t before = 0;

	for (size_t i = 0; i < n; i++)
		before += hash_score(members[i].seed, id) > own;
	return before;
}

/* Does m read it, for long enough? A connection that has brought nothing counts only if ours has not, either, for as
 * long as that one is open: there may be nothing to bring. quiet_s: for how long ours has been silent. */
static bool is_read_by(const struct member *m, size_t place, int64_t quiet_s)
{
	char head[24];
	const char *at;
	int64_t open_s;
	char *end;

	snprintf(head, sizeof(head), " %zu:", place);
	at = strstr(m->readings, head);
	if (!at)
		return false;
	open_s = strtoll(at + strlen(head), &end, 10);
	return open_s >= PROVED_S && (*end == 'r' || quiet_s >= open_s);
}

static bool is_read_by_others(const struct readers *r, const struct turn *t, const struct member *members, size_t n)
{
	struct reading own = r->owner.on_ask(r->owner.arg, (size_t)(t - r->turns));
	int64_t quiet_s = own.connection && own.last_message_ms ? (now_ms(r) - own.last_message_ms) / 1000 : INT64_MAX;

	for (size_t i = 0; i < n; i++)
		if (rank(members, n, t->id, hash_score(members[i].seed, t->id)) < r->readers &&
		    !is_read_by(&members[i], t->place, quiet_s))
			return false;
	return true;
}

static void judge(struct readers *r, struct turn *t, const struct member *members, size_t n, bool is_fresh)
{
	if (rank(members, n, t->id, hash_score(r->seed, t->id)) < r->readers)
		take_turn(r, t);
	else if (t->is_ours && is_fresh && now_ms(r) - t->ours_ms >= TURN_MS && is_read_by_others(r, t, members, n))
		set_turn(r, t, false);
}

static void on_refused(struct readers *r, const char *reason)
{
	bool is_forgotten = strncmp(reason, "NOSCRIPT", 8) == 0;

	log_write(r->has_error_logged || is_forgotten ? LOG_DEBUG : LOG_WARN,
		  "redis rejects the heartbeat of readers, all listeners will read all sources", "reason=%s", reason);
	r->has_error_logged = r->has_error_logged || !is_forgotten;
	if (is_forgotten)
		redis_load_scripts(r->redis);
}

static void on_members(void *owner, void *arg, const struct redis_reply *reply)
{
	struct readers *r = owner;
	struct member *members;
	size_t n;

	(void)arg;
	r->is_asking = false;
	if (r->is_closing || !reply)
		return;
	if (reply->type != REPLY_ARRAY) {
		on_refused(r, reply->type == REPLY_ERROR ? reply->str : "an answer of another type");
		return;
	}
	r->has_error_logged = false;
	members = memory_calloc(reply->elements + 1, sizeof(*members));
	n = read_members(r, reply, members);
	r->known_ms = r->asked_ms;
	r->has_known = true;
	for (size_t i = 0; i < r->count; i++)
		judge(r, &r->turns[i], members, n, now_ms(r) - r->asked_ms < FRESH_MS);
	free(members);
}

/* --- what we tell --- */

static void note_reading(const struct readers *r, struct turn *t, const struct reading *now)
{
	if (now->connection == t->connection)
		return;
	t->connection = now->connection;
	t->since_ms = now_ms(r);
}

#define READING_SIZE 48 /* of one, as text */

/* "NONCE SEED", and what is read. */
static char *describe(struct readers *r)
{
	size_t size = 40 + r->count * READING_SIZE;
	char *text = memory_alloc(size);
	size_t len = (size_t)snprintf(text, size, "%016" PRIx64 " %016" PRIx64, r->nonce, r->seed);

	for (size_t i = 0; i < r->count; i++) {
		struct turn *t = &r->turns[i];
		struct reading now = r->owner.on_ask(r->owner.arg, i);

		note_reading(r, t, &now);
		if (t->is_ours && now.connection)
			len += (size_t)snprintf(text + len, size - len, " %zu:%" PRId64 "%s", t->place,
						(now_ms(r) - t->since_ms) / 1000,
						now.last_message_ms > t->since_ms ? "r" : "");
	}
	return text;
}

static void beat(struct readers *r)
{
	char *now;

	if (r->is_asking || redis_state(r->redis) != REDIS_READY)
		return;
	now = describe(r);
	r->asked_ms = now_ms(r);
	resp_start(&r->command, 7);
	resp_word(&r->command, "EVALSHA");
	resp_word(&r->command, redis_script_sha(r->redis, REDIS_HEARTBEAT));
	resp_word(&r->command, "1");
	resp_word(&r->command, r->key);
	resp_word(&r->command, now);
	resp_word(&r->command, ALIVE_MS);
	resp_word(&r->command, r->told ? r->told : now);
	r->is_asking = redis_send(r->redis, r->command.bytes, r->command.len, on_members, NULL) == 0;
	free(r->told);
	r->told = now;
}

static void on_timer(uv_timer_t *timer)
{
	struct readers *r = timer->data;

	if (now_ms(r) - r->known_ms >= LOST_MS) {
		r->has_known = true;
		for (size_t i = 0; i < r->count; i++)
			take_turn(r, &r->turns[i]);
	}
	beat(r);
}

static void on_redis_state(void *owner, enum redis_state state)
{
	struct readers *r = owner;

	if (state == REDIS_READY && r->redis && !r->is_closing)
		beat(r);
}

/* --- life --- */

/* Two sources with one id, which bring the same, have one place. */
static void number(struct readers *r, const uint64_t *ids, const char *prefix)
{
	uint64_t *sorted = memory_alloc((r->count + 1) * sizeof(*sorted)), all = 0;

	memcpy(sorted, ids, r->count * sizeof(*sorted));
	qsort(sorted, r->count, sizeof(*sorted), hash_compare);
	for (size_t i = 0; i < r->count; i++) {
		const uint64_t *at = bsearch(&ids[i], sorted, r->count, sizeof(*sorted), hash_compare);

		r->turns[i].id = ids[i];
		r->turns[i].place = (size_t)(at - sorted);
		all = hash_mix(all ^ sorted[i]);
	}
	r->key = memory_printf(KEY_PREFIX "%s%016" PRIx64, prefix, all);
	free(sorted);
}

struct readers *readers_open(uv_loop_t *loop, const struct config *config, const uint64_t *ids, size_t n,
			     const struct readers_owner *owner)
{
	const struct redis_settings settings = {
		.url = config->redis,
		.ca = config->redis_ca,
		.cert = config->redis_cert,
		.key = config->redis_key,
		.timeout_ms = config->redis_timeout_ms,
		.on_state = on_redis_state,
	};
	struct readers *r = memory_calloc(1, sizeof(*r) + n * sizeof(r->turns[0]));
	struct redis_settings own = settings;

	own.owner = r;
	r->loop = loop;
	r->owner = *owner;
	r->count = n;
	r->readers = (size_t)config->readers;
	r->seed = hash_text(config->instance_id, strlen(config->instance_id));
	uv_random(NULL, NULL, &r->nonce, sizeof(r->nonce), 0, NULL);
	number(r, ids, config->claim_prefix);
	r->known_ms = now_ms(r);
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	uv_timer_start(&r->timer, on_timer, BEAT_MS, BEAT_MS);
	r->redis = redis_open(loop, &own);
	return r;
}

static void on_part_closed(void *arg)
{
	struct readers *r = arg;

	if (--r->open)
		return;
	resp_free(&r->command);
	free(r->told);
	free(r->key);
	free(r);
}

static void on_timer_closed(uv_handle_t *timer)
{
	on_part_closed(timer->data);
}

/* Once: the answer may come after the deadline for it. */
static void close_parts(struct readers *r)
{
	if (r->open)
		return;
	r->open = 2;
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
	redis_close(r->redis, on_part_closed, r);
}

static void on_withdrawn(void *owner, void *arg, const struct redis_reply *reply)
{
	(void)arg, (void)reply;
	close_parts(owner);
}

static void on_leave_deadline(uv_timer_t *timer)
{
	close_parts(timer->data);
}

void readers_close(struct readers *r)
{
	bool is_sent = false;

	r->is_closing = true;
	if (r->told && redis_state(r->redis) == REDIS_READY) {
		resp_start(&r->command, 3);
		resp_word(&r->command, "ZREM");
		resp_word(&r->command, r->key);
		resp_word(&r->command, r->told);
		is_sent = redis_send(r->redis, r->command.bytes, r->command.len, on_withdrawn, NULL) == 0;
	}
	uv_timer_start(&r->timer, on_leave_deadline, is_sent ? LEAVE_MS : 0, 0);
}
