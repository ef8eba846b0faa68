/* fleet.c knows who else hears the same feeds, by heartbeats in Redis, and which of them leads each source. The leader
 * claims the source's events at once; pipeline_claim.c decides what the others do meanwhile. Only speed and order
 * depend on it.
 *
 * The leader is chosen by rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
 * rates", 1998): each instance has a score for the source, and the highest wins. All that know the same instances
 * choose the same leader, and the sources of one that leaves are spread over the others. */
#include "road/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "base/hash.h"
#include "base/log.h"

#define KEY_PREFIX  "wsonce:fleet:"
#define BEAT_MS     1000
#define SOON_MS     100 /* to the second one, by when the others have sent their first */
#define ALIVE_MS    "3000"
#define SUSPECT_MS  4000 /* more than ALIVE_MS and a beat: by then a dead one is not listed */
#define QUIET_BEATS 5    /* heartbeats without a message, after which there are no more */
#define MEMBERS_MAX 256  /* more are not looked at: their ids are claimed by everybody */

struct fleet {
	uv_timer_t timer;
	struct redis *redis; /* NULL: away */
	char *key;
	char *name;
	uint64_t seed;
	uint64_t others[MEMBERS_MAX]; /* seeds of those alive */
	size_t count;
	uint64_t suspect;   /* the seed of one that does not lead; */
	int64_t suspect_ms; /* loop clock, since when; 0: there is none */
	unsigned int beats; /* to come, unless something is heard; 0: none is sent */
	bool is_resting;
	bool has_left;
	struct resp command;
	void (*done)(void *arg);
	void *done_arg;
};

static uint64_t score(uint64_t seed, uint64_t id_hash)
{
	return hash_mix(seed ^ id_hash * UINT64_C(0x9e3779b97f4a7c15));
}

static int64_t now_ms(const struct fleet *f)
{
	return (int64_t)uv_now(f->timer.loop);
}

static bool is_suspect(const struct fleet *f, uint64_t seed)
{
	return f->suspect_ms && seed == f->suspect && now_ms(f) - f->suspect_ms < SUSPECT_MS;
}

/* The seed of the leader, which may be our own. */
static uint64_t leader_of(const struct fleet *f, const char *source)
{
	uint64_t hash = hash_text(source, strlen(source)), leader = f->seed, most = score(f->seed, hash);

	for (size_t i = 0; i < f->count; i++)
		if (score(f->others[i], hash) > most && !is_suspect(f, f->others[i])) {
			leader = f->others[i];
			most = score(leader, hash);
		}
	return leader;
}

bool fleet_has_other_leader(const struct fleet *f, const char *source)
{
	return f->count && leader_of(f, source) != f->seed;
}

static void suspect(struct fleet *f, uint64_t seed)
{
	if (seed == f->seed)
		return;
	f->suspect = seed;
	f->suspect_ms = now_ms(f);
}

void fleet_suspect_leader(struct fleet *f, const char *source)
{
	suspect(f, leader_of(f, source));
}

void fleet_suspect(struct fleet *f, const char *name, size_t len)
{
	suspect(f, hash_text(name, len));
}

size_t fleet_size(const struct fleet *f)
{
	return f->count;
}

/* --- heartbeats --- */

static void keep_members(struct fleet *f, const struct redis_reply *reply)
{
	f->count = 0;
	for (size_t i = 0; i < reply->elements && f->count < MEMBERS_MAX; i++) {
		const struct redis_reply *name = reply->element[i];
		uint64_t seed;

		if (name->type != REPLY_STRING)
			continue;
		seed = hash_text(name->str, (size_t)name->len);
		if (seed != f->seed)
			f->others[f->count++] = seed;
	}
}

/* Who cannot be told is nobody: then this instance claims all that it hears. */
static void on_members(void *owner, void *arg, const struct redis_reply *reply)
{
	struct fleet *f = arg;

	(void)owner;
	if (reply && reply->type == REPLY_ARRAY && !f->has_left && !f->is_resting) {
		keep_members(f, reply);
		return;
	}
	if (reply)
		f->count = 0;
	if (reply && reply->type == REPLY_ERROR) {
		log_debug("redis rejects the heartbeat", "reason=%s", reply->str);
		if (f->redis && strncmp(reply->str, "NOSCRIPT", 8) == 0)
			redis_load_scripts(f->redis);
	}
}

static void beat(struct fleet *f)
{
	resp_start(&f->command, 6);
	resp_word(&f->command, "EVALSHA");
	resp_word(&f->command, redis_script_sha(f->redis, REDIS_HEARTBEAT));
	resp_word(&f->command, "1");
	resp_word(&f->command, f->key);
	resp_word(&f->command, f->name);
	resp_word(&f->command, ALIVE_MS);
	if (redis_send(f->redis, f->command.bytes, f->command.len, on_members, f))
		f->count = 0;
}

/* An instance whose feed is down, or which does not read for lack of memory, would only be waited for. */
static void on_beat(uv_timer_t *timer)
{
	struct fleet *f = timer->data;

	if (!f->redis || f->has_left || f->is_resting || !f->beats) {
		if (f->redis)
			f->count = 0;
		uv_timer_stop(timer);
		return;
	}
	f->beats--;
	beat(f);
}

void fleet_hear(struct fleet *f)
{
	f->beats = QUIET_BEATS;
	if (uv_is_active((uv_handle_t *)&f->timer) || !f->redis || f->has_left || f->is_resting)
		return;
	beat(f);
	uv_timer_start(&f->timer, on_beat, SOON_MS, BEAT_MS);
}

void fleet_set_redis(struct fleet *f, struct redis *redis)
{
	f->redis = redis;
}

static void withdraw(struct fleet *f)
{
	f->count = 0;
	if (!f->redis)
		return;
	resp_start(&f->command, 3);
	resp_word(&f->command, "ZREM");
	resp_word(&f->command, f->key);
	resp_word(&f->command, f->name);
	redis_send(f->redis, f->command.bytes, f->command.len, NULL, NULL);
}

void fleet_rest(struct fleet *f, bool is_resting)
{
	f->is_resting = is_resting;
	if (is_resting)
		withdraw(f);
}

void fleet_leave(struct fleet *f)
{
	f->has_left = true;
	withdraw(f);
}

/* --- life --- */

/* Instances that hear other feeds are another fleet. Who a feed knows us as does not matter. */
uint64_t fleet_source_id(const char *url, const char *name)
{
	const char *host = strstr(url, "://");
	const char *path, *at;

	host = host ? host + 3 : url;
	path = host + strcspn(host, "/?#");
	at = memrchr(host, '@', (size_t)(path - host));
	return hash_text(url, (size_t)(host - url)) * 31 + hash_text(at ? at + 1 : host, strlen(at ? at + 1 : host)) +
	       (*name ? hash_text(name, strlen(name)) : 0);
}

static char *make_key(const struct config *config, const char *source)
{
	uint64_t sources = source ? hash_mix(fleet_source_id(source, "")) : 0;

	for (size_t i = 0; !source && i < config->sources.count; i++)
		sources += fleet_source_id(config_source_url(config, i), ""); /* in whatever order */
	return memory_printf(KEY_PREFIX "%s%016llx", config->claim_prefix, (unsigned long long)sources);
}

struct fleet *fleet_open(uv_loop_t *loop, const struct config *config, const char *source, const char *name)
{
	struct fleet *f = memory_calloc(1, sizeof(*f));

	f->key = make_key(config, source);
	f->name = memory_strdup(name);
	f->seed = hash_text(name, strlen(name));
	uv_timer_init(loop, &f->timer);
	f->timer.data = f;
	return f;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct fleet *f = handle->data;
	void (*done)(void *arg) = f->done;
	void *done_arg = f->done_arg;

	resp_free(&f->command);
	free(f->key);
	free(f->name);
	free(f);
	done(done_arg);
}

void fleet_close(struct fleet *f, void (*done)(void *arg), void *arg)
{
	f->done = done;
	f->done_arg = arg;
	uv_close((uv_handle_t *)&f->timer, on_timer_closed);
}
