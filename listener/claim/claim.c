/* claim.c implements the claim protocol: keys, values, and what each answer means. redis/connection.c has the
 * connection; claiming.c decides what follows from an answer.
 *
 * A claim's value is <instance>.<boot nonce>@<unix ms>. The nonce tells two processes with one name apart. The time,
 * which never repeats for an event, tells two claims of one process apart, so that a late release of the first cannot
 * delete the second. */
#include "claim/claim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/memory.h"
#include "base/fault_point.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "event/duplicates.h"
#include "fleet/presence.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "claim/mark.h"
#include "redis/connection.h"
#include "inherit.lua.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "seize.lua.h"
#include "claim/mac.h"
#include "base/counters.h"

#define MINUTE_MS  60000
#define TELL_MS    60000 /* time between two warnings about bad MACs */
#define REFUSED_MS 3000  /* Redis counts as refusing for this long after an error */
#define OWED_MOST  (1u << 20)

struct stamp {
	int64_t ms;
	size_t len;
	char text[24];
};

struct claim {
	uv_loop_t *loop;
	struct redis *redis;       /* NULL: --redis none */
	struct presence *presence; /* without Redis, it knows only this listener */
	struct done_channel *channel;
	struct claim_callbacks on;
	const char *prefix;
	size_t prefix_len;
	char *cluster_prefix; /* the prefix and REDIS_CLUSTER_TAG */
	char *owner;          /* "<instance>.<nonce>@" */
	size_t owner_len;
	char ttl[24];
	char take_tail[64], done_tail[64], dead_tail[64]; /* ends of SETs of claims and marks, as text */
	char database[40];                                /* id of the database; "": unknown or none */
	uint32_t epoch;                                   /* the database's epoch; 0: unknown */
	struct stamp stamp;                               /* the last time written */
	struct mac_key *key;                              /* NULL: marks have no MACs */
	int64_t told_ms;                                  /* loop clock: last warning about bad MACs; 0: none */
	unsigned int bad_macs;                            /* bad MACs since then */
	struct mark mark;                                 /* the last mark written */
	char mark_text[MARK_TEXT_SIZE + MAC_LEN];
	size_t mark_len;
	struct bytes command;
	struct bytes owed;       /* commands to send when Redis is back, each after its length; about OWED_MOST */
	int64_t start_ms;        /* wall clock minus monotonic clock at the start */
	int64_t met_ms;          /* Unix time of the last connection to Redis */
	bool is_refused;         /* Redis answered the last claim or mark with an error */
	int64_t refused_ms;      /* loop clock: the last such error, or command that could not be sent; 0: none */
	struct log_spell errors; /* logs such errors once: OOM or READONLY may answer every command */
	struct ending ending;
};

/* Unix time that never goes back in this process. With the wall clock, a second claim could equal the first after the
 * clock is set back. */
static int64_t stamp_ms(const struct claim *c)
{
	return c->start_ms + clock_ms(CLOCK_MONOTONIC_COARSE);
}

#define SET_7 "*7\r\n$3\r\nSET\r\n"
#define SET_5 "*5\r\n$3\r\nSET\r\n"

static void put_key(struct claim *c, const struct event *ev)
{
	bool is_cluster = redis_is_cluster(c->redis);

	resp_joined(&c->command, is_cluster ? c->cluster_prefix : c->prefix,
		    c->prefix_len + (is_cluster ? strlen(REDIS_CLUSTER_TAG) : 0), ev->id, ev->id_len);
}

/* Sends one command for n events. */
typedef void(ask_fn)(struct claim *c, struct event *const *evs, size_t n, unsigned int with);

/* On a cluster a command can name keys of one slot only. */
static void ask_all(struct claim *c, struct event *const *evs, size_t n, ask_fn *ask, unsigned int with)
{
	size_t at_once = redis_is_cluster(c->redis) ? 1 : n;

	for (size_t i = 0; i < n; i += at_once)
		ask(c, evs + i, at_once, with);
}

/* The digits of a time, cached: hundreds of claims and marks share a millisecond. */
static const char *digits(struct stamp *stamp, int64_t ms)
{
	if (stamp->ms != ms)
		stamp->len = (size_t)snprintf(stamp->text, sizeof(stamp->text), "%lld", (long long)ms);
	stamp->ms = ms;
	return stamp->text;
}

static void put_value(struct claim *c, const struct event *ev)
{
	const char *ms = digits(&c->stamp, ev->claim_ms);

	resp_joined(&c->command, c->owner, c->owner_len, ms, c->stamp.len);
}

static int send_command(struct claim *c, redis_cb *cb, void *arg)
{
	int error = redis_send(c->redis, c->command.at, c->command.len, cb, arg);

	if (error) /* the key's master in a cluster is away */
		c->refused_ms = (int64_t)uv_now(c->loop);
	return error;
}

static void log_error_answer(struct claim *c, const struct redis_reply *reply)
{
	counters.redis_errors++;
	log_spell_on(&c->errors, (int64_t)uv_now(c->loop), "redis rejects claims; the unique key decides", reply->str);
	c->is_refused = true;
	c->refused_ms = (int64_t)uv_now(c->loop);
}

static void on_marked(void *owner, void *arg, const struct redis_reply *reply)
{
	(void)arg;
	if (reply && reply->type == REPLY_ERROR)
		log_error_answer(owner, reply);
}

static int64_t value_ms(const struct redis_reply *value)
{
	const char *at = memrchr(value->str, '@', (size_t)value->len);
	int64_t ms = 0;

	/* Faster than strtoll, which handles signs, bases and locales; called for each copy. */
	for (int n = 1; at && n < 16 && at[n] >= '0' && at[n] <= '9'; n++)
		ms = ms * 10 + (at[n] - '0');
	return ms;
}

static struct mac_place place_of(const struct claim *c, const struct event *ev)
{
	return (struct mac_place){c->prefix, c->prefix_len, ev->id, ev->id_len};
}

/* Another program writes to this Redis, or a listener of the fleet does not have the key. */
static void warn_of_bad_mac(struct claim *c)
{
	int64_t now = (int64_t)uv_now(c->loop);

	counters.marks_unsealed++;
	c->bad_macs++;
	if (c->told_ms && now - c->told_ms < TELL_MS)
		return;
	log_warn("marks in redis lack a MAC by the key in --marks-key-file, asking postgres instead", "marks=%u",
		 c->bad_macs);
	c->told_ms = now;
	c->bad_macs = 0;
}

/* False if no listener of the fleet wrote this mark for this event. */
static bool is_believed(struct claim *c, const struct event *ev, const struct redis_reply *value)
{
	struct mac_place place = place_of(c, ev);

	if (!c->key || mac_is_right(c->key, &place, value->str, (size_t)value->len))
		return true;
	warn_of_bad_mac(c);
	return false;
}

/* A mark of another epoch may be outdated. A dead mark of another message with the same id says nothing about ev. */
static enum claim_result read_mark(const struct claim *c, const struct mark *mark, const struct event *ev)
{
	if (!c->epoch)
		return CLAIM_UNKNOWN;
	counters.marks_past += mark->epoch != c->epoch;
	if (mark->epoch != c->epoch)
		return CLAIM_ABSENT;
	if (!mark->is_dead)
		return CLAIM_DONE;
	return mark->digest == event_digest_head(ev) ? CLAIM_DEAD : CLAIM_ABSENT;
}

/* Reads a claim's value. A mark that says nothing about ev counts as absent. If the value is our own, an earlier SET
 * reached Redis but its answer was lost: the claim is ours, with the time of that SET. */
static enum claim_result read_value(struct claim *c, struct event *ev, const struct redis_reply *value)
{
	size_t len = (size_t)value->len;
	enum claim_result result;
	struct mark mark;

	if (value->type != REPLY_STRING && value->type != REPLY_STATUS)
		return CLAIM_UNKNOWN;
	if (mark_read(&mark, value->str, len)) {
		result = is_believed(c, ev, value) ? read_mark(c, &mark, ev) : CLAIM_ABSENT;
		if (result == CLAIM_DEAD && value_ms(value) < c->met_ms)
			result = CLAIM_ABSENT; /* Redis may have come back with older keys */
		ev->won_ms = result == CLAIM_DONE ? (int64_t)mark.minute * MINUTE_MS : 0;
		return result;
	}
	if (len <= c->owner_len || memcmp(value->str, c->owner, c->owner_len) != 0)
		return CLAIM_OTHER;
	ev->claim_ms = value_ms(value);
	return CLAIM_MINE;
}

/* Records the owner of the claim that ev waits for. */
static void note_owner(struct claim *c, struct event *ev, enum claim_result result, const struct redis_reply *value)
{
	ev->owner = result == CLAIM_OTHER ? presence_find(c->presence, value->str, value->len) : 0;
	presence_wait_for(c->presence, ev->owner);
}

/* Counts ev as a duplicate if it has met another listener's claim or mark, and how old that was when ev arrived. */
static void count_duplicate(const struct claim *c, struct event *ev, enum claim_result result,
			    const struct redis_reply *value)
{
	int64_t age_ms = (int64_t)uv_now(c->loop) - ev->received_us / 1000;

	if (ev->is_counted || (result != CLAIM_OTHER && result != CLAIM_DONE && result != CLAIM_DEAD))
		return;
	duplicates_seen(ev->id, ev->id_len, stamp_ms(c) - age_ms - value_ms(value));
	ev->is_counted = true;
}

static void on_seized(void *owner, void *arg, const struct redis_reply *reply);

/* Claims ev by replacing a mark that says nothing about it. Returns as claim_take. */
static int seize(struct claim *c, struct event *ev, const struct redis_reply *mark)
{
	resp_start(&c->command, 7);
	resp_words(&c->command, "EVAL", LUA_SEIZE, "1");
	put_key(c, ev);
	resp_bytes(&c->command, mark->str, (size_t)mark->len);
	put_value(c, ev);
	resp_word(&c->command, c->ttl);
	return send_command(c, on_seized, ev);
}

static enum claim_result read_take(struct claim *c, struct event *ev, const struct redis_reply *reply)
{
	if (!reply)
		return CLAIM_UNKNOWN;
	if (reply->type == REPLY_ERROR) {
		log_error_answer(c, reply);
		return CLAIM_UNKNOWN;
	}
	c->is_refused = false;
	log_spell_off(&c->errors, (int64_t)uv_now(c->loop), "redis takes claims again");
	return reply->type == REPLY_NIL ? CLAIM_MINE : read_value(c, ev, reply);
}

/* A second useless mark: do not try again, or a Redis that returns one each time could keep ev from being stored. */
static void finish_take(struct claim *c, struct event *ev, enum claim_result result, const struct redis_reply *reply)
{
	if (result == CLAIM_ABSENT)
		result = CLAIM_UNKNOWN;
	count_duplicate(c, ev, result, reply);
	note_owner(c, ev, result, reply);
	/* The claim may still be ours; release and renewal compare anyway. */
	ev->is_claimed = result == CLAIM_MINE || (result == CLAIM_UNKNOWN && (!reply || reply->type == REPLY_ERROR));
	c->on.on_claimed(c->on.arg, ev, result);
}

static void on_seized(void *owner, void *arg, const struct redis_reply *reply)
{
	finish_take(owner, arg, read_take(owner, arg, reply), reply);
}

static void on_take(void *owner, void *arg, const struct redis_reply *reply)
{
	struct claim *c = owner;
	struct event *ev = arg;
	enum claim_result result = read_take(c, ev, reply);

	if (result != CLAIM_ABSENT || seize(c, ev, reply))
		finish_take(c, ev, result, reply);
}

/* Sends a claim of ev with a time that none of its earlier claims had. */
static void stamp_claim(struct claim *c, struct event *ev)
{
	int64_t ms = stamp_ms(c);

	ev->claim_ms = ms > ev->claim_ms ? ms : ev->claim_ms + 1;
	ev->lease_ms = (int64_t)uv_now(c->loop);
}

int claim_take(struct claim *c, struct event *ev)
{
	if (!claim_is_ready(c) || FAULT_POINT("claim: nobody can be asked"))
		return -1;
	stamp_claim(c, ev);
	c->command.len = 0;
	bytes_add_text(&c->command, SET_7);
	put_key(c, ev);
	put_value(c, ev);
	bytes_add_text(&c->command, c->take_tail);
	return send_command(c, on_take, ev);
}

/* A pending call of inherit.lua. */
struct inheritance {
	size_t count;
	struct event *events[];
};

static void on_inherited(void *owner, void *arg, const struct redis_reply *reply)
{
	struct claim *c = owner;
	struct inheritance *all = arg;
	const struct redis_reply *whole =
		reply && reply->type == REPLY_ARRAY && reply->elements == all->count ? reply : NULL;

	if (reply && reply->type == REPLY_ERROR)
		log_error_answer(c, reply);
	for (size_t i = 0; i < all->count; i++) {
		struct event *ev = all->events[i];
		const struct redis_reply *value = whole ? &whole->element[i] : NULL;
		enum claim_result result = !value                     ? CLAIM_UNKNOWN
					   : value->type == REPLY_NIL ? CLAIM_MINE
								      : read_value(c, ev, value);

		finish_take(c, ev, result, value);
	}
	free(all);
}

static void inherit(struct claim *c, struct event *const *evs, size_t n, unsigned int owner)
{
	struct inheritance *all;

	resp_start(&c->command, 5 + 2 * n);
	resp_words(&c->command, "EVAL", LUA_INHERIT);
	resp_number(&c->command, (int64_t)n);
	for (size_t i = 0; i < n; i++)
		put_key(c, evs[i]);
	resp_words(&c->command, presence_name(c->presence, (uint16_t)owner), c->ttl);
	for (size_t i = 0; i < n; i++) {
		stamp_claim(c, evs[i]);
		put_value(c, evs[i]);
	}
	all = memory_alloc(sizeof(*all) + n * sizeof(struct event *));
	all->count = n;
	memcpy(all->events, evs, n * sizeof(struct event *));
	if (send_command(c, on_inherited, all))
		on_inherited(c, all, NULL);
}

void claim_inherit(struct claim *c, uint16_t owner, struct event *const *evs, size_t n)
{
	if (claim_is_ready(c)) {
		ask_all(c, evs, n, inherit, owner);
		return;
	}
	for (size_t i = 0; i < n; i++)
		c->on.on_claimed(c->on.arg, evs[i], CLAIM_UNKNOWN);
}

/* Returns how many of the claims the script has changed. */
static uint64_t count_of(const struct redis_reply *reply, size_t claims)
{
	if (reply->integer < 0)
		return 0;
	return (uint64_t)reply->integer < claims ? (uint64_t)reply->integer : claims;
}

/* arg: the number of claims. */
static void on_renewed(void *owner, void *arg, const struct redis_reply *reply)
{
	size_t claims = (uintptr_t)arg;

	if (reply && reply->type == REPLY_ERROR) {
		log_error_answer(owner, reply);
	} else if (reply && reply->type == REPLY_INTEGER) {
		counters.claims_renewed += count_of(reply, claims);
		counters.claims_expired += claims - count_of(reply, claims);
	}
}

static void on_released(void *owner, void *arg, const struct redis_reply *reply)
{
	if (reply && reply->type == REPLY_ERROR)
		log_error_answer(owner, reply);
	else if (reply && reply->type == REPLY_INTEGER)
		counters.claims_released += count_of(reply, (uintptr_t)arg);
}

/* Sends a command, or keeps it until Redis is back. */
static void send_or_owe(struct claim *c, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	if (redis_send(c->redis, bytes, len, cb, arg) == 0 || c->owed.len >= OWED_MOST)
		return;
	bytes_add(&c->owed, &len, sizeof(len));
	bytes_add(&c->owed, bytes, len);
}

/* Sends the script's text each time: most calls have many claims of a hundred bytes each, so the text adds little. */
static void change(struct claim *c, struct event *const *evs, size_t n, unsigned int is_renewal)
{
	resp_start(&c->command, 3 + 2 * n + is_renewal);
	resp_words(&c->command, "EVAL", is_renewal ? LUA_RENEW : LUA_RELEASE);
	resp_number(&c->command, (int64_t)n);
	for (size_t i = 0; i < n; i++)
		put_key(c, evs[i]);
	for (size_t i = 0; i < n; i++)
		put_value(c, evs[i]);
	if (!is_renewal) {
		send_or_owe(c, c->command.at, c->command.len, on_released, (void *)(uintptr_t)n);
		return;
	}
	resp_word(&c->command, c->ttl);
	send_command(c, on_renewed, (void *)(uintptr_t)n);
}

void claim_renew(struct claim *c, struct event *const *evs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		evs[i]->lease_ms = (int64_t)uv_now(c->loop);
	if (claim_is_ready(c))
		ask_all(c, evs, n, change, true);
}

void claim_release(struct claim *c, struct event *const *evs, size_t n)
{
	if (claim_is_ready(c) || (c->redis && !claim_is_foreign(c) && evs[0]->is_claimed))
		ask_all(c, evs, n, change, false);
	for (size_t i = 0; i < n; i++)
		evs[i]->is_claimed = false;
}

/* Writes the mark of ev into mark_text. Returns its length. Many marks share a millisecond, but no MAC. */
static size_t write_mark(struct claim *c, const struct event *ev, enum claim_mark kind)
{
	bool is_dead = kind == CLAIM_MARK_DEAD;
	const struct mark mark = {is_dead, stamp_ms(c), c->epoch, is_dead ? event_digest_head(ev) : 0,
				  (uint32_t)(ev->won_ms / MINUTE_MS)};
	struct mac_place place = place_of(c, ev);

	if (mark.is_dead != c->mark.is_dead || mark.digest != c->mark.digest || mark.ms != c->mark.ms ||
	    mark.epoch != c->mark.epoch || mark.minute != c->mark.minute) {
		c->mark = mark;
		c->mark_len = mark_write(&mark, c->mark_text);
	}
	return c->key ? mac_append(c->key, &place, c->mark_text, c->mark_len) : c->mark_len;
}

static void send_owed(struct claim *c)
{
	struct bytes owed = c->owed;

	c->owed = (struct bytes){NULL, 0, 0};
	for (size_t at = 0, len; at < owed.len; at += sizeof(len) + len) {
		memcpy(&len, owed.at + at, sizeof(len));
		send_or_owe(c, owed.at + at + sizeof(len), len, on_marked, NULL);
	}
	bytes_free(&owed);
}

/* A Redis that hung carries out later what it has received: the claim of ev may still come. Whichever arrives first,
 * the mark stays. A dead mark is not kept, since its dead letter may be retried meanwhile; the claim is released. */
void claim_mark(struct claim *c, struct event *ev, enum claim_mark kind)
{
	size_t len;

	if (claim_is_foreign(c) || !(claim_is_ready(c) || ev->is_claimed))
		return;
	/* A full Redis refuses the mark, but not DEL. Without DEL, other copies would wait until the claim expires. */
	if (c->is_refused && ev->is_claimed)
		claim_release(c, &ev, 1);
	len = write_mark(c, ev, kind);
	c->command.len = 0;
	bytes_add_text(&c->command, SET_5);
	put_key(c, ev);
	resp_bytes(&c->command, c->mark_text, len);
	bytes_add_text(&c->command, kind == CLAIM_MARK_DEAD ? c->dead_tail : c->done_tail);
	if (kind == CLAIM_MARK_DONE) {
		send_or_owe(c, c->command.at, c->command.len, on_marked, NULL);
		done_channel_add(c->channel, &(const struct done){ev->id_hash, ev->won_ms});
	} else if (send_command(c, on_marked, NULL)) {
		claim_release(c, &ev, 1);
	}
}

static void on_redis_state(void *owner, enum redis_state state)
{
	struct claim *c = owner;

	c->met_ms = stamp_ms(c);
	presence_set_redis(c->presence, state == REDIS_READY ? c->redis : NULL);
	done_channel_set_redis(c->channel, state == REDIS_READY ? c->redis : NULL);
	if (state == REDIS_READY)
		send_owed(c);
}

void claim_set_database(struct claim *c, const char *id)
{
	snprintf(c->database, sizeof(c->database), "%s", id);
	presence_set_database(c->presence, id);
	done_channel_set_place(c->channel, id, c->epoch);
}

void claim_set_epoch(struct claim *c, uint32_t epoch)
{
	c->epoch = epoch;
	done_channel_set_place(c->channel, c->database, epoch);
}

bool claim_has_other_leader(struct claim *c, const char *source)
{
	if (presence_is_foreign(c->presence))
		return false;
	presence_hear(c->presence, source);
	return presence_has_other_leader(c->presence, source);
}

bool claim_had_other_leader(struct claim *c, const char *source, int64_t ms)
{
	return claim_has_other_leader(c, source) && presence_knew_leader(c->presence, source, ms);
}

bool claim_is_used(const struct claim *c)
{
	return c->redis != NULL;
}

bool claim_is_ready(const struct claim *c)
{
	return c->redis && redis_state(c->redis) == REDIS_READY && !presence_is_foreign(c->presence);
}

bool claim_is_refused(const struct claim *c)
{
	bool is_refused = c->refused_ms && (int64_t)uv_now(c->loop) - c->refused_ms < REFUSED_MS;

	return claim_is_ready(c) &&
	       (is_refused || presence_is_refused(c->presence) || done_channel_is_refused(c->channel));
}

bool claim_is_foreign(const struct claim *c)
{
	return c->presence && presence_is_foreign(c->presence);
}

uint64_t claim_unanswered(const struct claim *c)
{
	return claim_is_ready(c) ? redis_unanswered(c->redis) : 0;
}

static void release_all(void *object)
{
	struct claim *c = object;

	bytes_free(&c->command);
	bytes_free(&c->owed);
	free(c->cluster_prefix);
	free(c->owner);
	free(c->key);
	free(c);
}

/* The options of SET, which are always the same. Each event needs two SETs. */
static void write_tail(char *tail, size_t size, const char *before, int64_t seconds)
{
	char number[24];
	int n = snprintf(number, sizeof(number), "%lld", (long long)seconds);

	snprintf(tail, size, "%s$2\r\nEX\r\n$%d\r\n%s\r\n", before, n, number);
}

struct claim *claim_open(uv_loop_t *loop, const struct config *config, const struct claim_callbacks *callbacks)
{
	struct claim *c = memory_calloc(1, sizeof(*c));
	struct redis_settings settings = {.url = config->redis,
					  .ca = config->redis_ca,
					  .cert = config->redis_cert,
					  .key = config->redis_key,
					  .timeout_ms = config->redis_timeout_ms,
					  .on_state = on_redis_state,
					  .owner = c};
	uint64_t nonce = 0;

	uv_random(NULL, NULL, &nonce, sizeof(nonce), 0, NULL);
	c->owner = memory_printf("%s.%016llx@", config->instance_id, (unsigned long long)nonce);
	if (config->marks_key) {
		c->key = memory_alloc(sizeof(*c->key));
		mac_key_make(c->key, config->marks_key);
	}
	c->start_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_MONOTONIC);
	c->loop = loop;
	c->on = *callbacks;
	c->owner_len = strlen(c->owner);
	c->prefix = config->claim_prefix;
	c->prefix_len = strlen(c->prefix);
	c->cluster_prefix = memory_printf("%s" REDIS_CLUSTER_TAG, c->prefix);
	snprintf(c->ttl, sizeof(c->ttl), "%lld", (long long)config->claim_ttl_s);
	write_tail(c->take_tail, sizeof(c->take_tail), "$2\r\nNX\r\n$3\r\nGET\r\n", config->claim_ttl_s);
	write_tail(c->done_tail, sizeof(c->done_tail), "", config->dedup_window_s);
	write_tail(c->dead_tail, sizeof(c->dead_tail), "", HOLD_TTLS * config->claim_ttl_s);
	c->channel = done_channel_open(loop, config, c->on.on_done, c->on.arg);
	c->presence = presence_open(loop, config, c->owner, c->on.on_owner_gone, c->on.on_foreign, c->on.arg);
	if (strcmp(config->redis, "none") != 0)
		c->redis = redis_open(loop, &settings);
	return c;
}

/* redis_close() answers all pending commands before it returns, so the rest can be freed. */
void claim_close(struct claim *c, void (*done)(void *arg), void *arg)
{
	ending_begin(&c->ending, c->redis ? 3 : 2, release_all, c, done, arg);
	done_channel_close(c->channel, ending_part, &c->ending);
	if (c->redis)
		redis_close(c->redis, ending_part, &c->ending);
	presence_close(c->presence, ending_part, &c->ending);
}

struct done_channel *claim_channel(const struct claim *c)
{
	return c->channel;
}

struct presence *claim_presence(const struct claim *c)
{
	return c->presence;
}

const char *claim_owner(const struct claim *c)
{
	return c->owner;
}
