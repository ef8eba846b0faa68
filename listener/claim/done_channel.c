/* done_channel.c announces committed events, and remembers those that others have announced in the last seconds.
 * claiming.c decides what follows for a copy.
 *
 * After a commit the listener publishes one message per batch, and all others settle their copies. A message has a
 * header (magic, epoch, publisher, a time) and 18 bytes per event: a keyed hash of the id, and the milliseconds between
 * the header's time and the event's receipt, or 65535 if unknown. The key is derived from the database, its epoch, the
 * prefix and the secret of --marks-key-file. So a hash means that an id has a row in one epoch of one database, and
 * without the secret nobody can forge it. A lost message costs one question to Redis for each of its events. */
#include "claim/done_channel.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/ending.h"
#include "base/fault_point.h"
#include "base/keyed.h"
#include "base/log.h"
#include "base/memory.h"
#include "redis/reply.h"
#include "redis/resp.h"

#define MAGIC          "wsd1"
#define HEADER         24
#define ENTRY          18
#define MESSAGE_BYTES  65536
#define MESSAGE_EVENTS ((MESSAGE_BYTES - HEADER) / ENTRY)
#define UNKNOWN        UINT16_MAX /* instead of milliseconds */
#define PING_MS        1000       /* time between two PINGs, which detect a hanging connection */
#define DEAF_MS        10000      /* time without the channel, though Redis is ready, before a warning */
#define FIRST_SLOTS    1024
#define MOST_SLOTS     131072 /* per generation, half of them used: 6 MiB for two */
#define GENERATION_MS  2000   /* so an event is remembered for 2 to 4 s */

/* Events heard lately: a table with open addressing. A zero hash marks a free slot. */
struct generation {
	struct done *slots;
	size_t size, count;
	int64_t since_ms;
};

struct done_channel {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct redis *redis;      /* connection to publish on; NULL: Redis is away */
	struct redis *subscriber; /* NULL: --redis none */
	char *name;               /* name of the channel */
	const struct config *config;
	done_cb *on_done;
	void *arg;
	char database[40];
	uint32_t epoch;
	struct id_hash_key key;
	bool has_key;
	bool is_heard;
	int64_t deaf_ms;   /* loop clock: not subscribed since then although Redis is ready; 0: subscribed */
	bool is_deaf_told; /* deafness, or an error of SUBSCRIBE, has been logged */
	bool is_mute;      /* the last PUBLISH failed */
	uint64_t publisher;
	struct generation young, old;
	char message[MESSAGE_BYTES]; /* the next message */
	size_t len;                  /* 0: nothing to publish */
	int64_t base_ms;             /* the time in the header */
	struct bytes command;
	struct ending ending;
};

static int64_t now_ms(const struct done_channel *c)
{
	return (int64_t)uv_now(c->loop);
}

/* --- what is known --- */

static bool is_free(const struct done *e)
{
	return !e->hash.half[0] && !e->hash.half[1];
}

/* Returns the slot of the hash, or the free slot for it. A publisher may choose hashes, so they are hashed again with a
 * key of this process. */
static struct done *find_slot(const struct generation *g, const struct id_hash *hash)
{
	size_t i = keyed_hash(hash, sizeof(*hash)) & (g->size - 1);

	while (!is_free(&g->slots[i]) && !id_hash_is_equal(&g->slots[i].hash, hash))
		i = (i + 1) & (g->size - 1);
	return &g->slots[i];
}

/* A generation without a successor expires too. */
static const struct done *find_in(const struct done_channel *c, const struct generation *g, const struct id_hash *hash)
{
	const struct done *slot;

	if (!g->count || now_ms(c) - g->since_ms > (int64_t)2 * GENERATION_MS)
		return NULL;
	slot = find_slot(g, hash);
	return is_free(slot) ? NULL : slot;
}

const struct done *done_channel_find(const struct done_channel *c, const struct id_hash *hash)
{
	const struct done *found = find_in(c, &c->young, hash);

	return found ? found : find_in(c, &c->old, hash);
}

static void grow(struct generation *g)
{
	struct generation more = {
		.size = g->size ? 2 * g->size : FIRST_SLOTS, .count = g->count, .since_ms = g->since_ms};

	more.slots = memory_calloc(more.size, sizeof(*more.slots));
	for (size_t i = 0; i < g->size; i++)
		if (!is_free(&g->slots[i]))
			*find_slot(&more, &g->slots[i].hash) = g->slots[i];
	free(g->slots);
	*g = more;
}

static void forget(struct generation *g)
{
	free(g->slots);
	*g = (struct generation){.slots = NULL};
}

static void keep(struct done_channel *c, const struct done *e)
{
	struct generation *g = &c->young;
	bool is_full = g->count >= MOST_SLOTS / 2;

	if (is_free(e))
		return;
	if (is_full || (g->count && now_ms(c) - g->since_ms > GENERATION_MS)) {
		forget(&c->old);
		c->old = *g;
		*g = (struct generation){.slots = NULL};
	}
	if (!g->count)
		g->since_ms = now_ms(c);
	if (2 * g->count >= g->size)
		grow(g);
	g->count += is_free(find_slot(g, &e->hash));
	*find_slot(g, &e->hash) = *e;
}

static void make_key(struct done_channel *c)
{
	char place[60];
	int len = snprintf(place, sizeof(place), "%s/%08x", c->database, c->epoch);
	const char *prefix = c->config->claim_prefix, *secret = c->config->marks_key;
	crypto_generichash_state state;

	c->has_key = *c->database && c->epoch;
	crypto_generichash_init(&state, (const unsigned char *)place, (size_t)len, sizeof(c->key));
	crypto_generichash_update(&state, (const unsigned char *)prefix, strlen(prefix) + 1);
	if (secret)
		crypto_generichash_update(&state, (const unsigned char *)secret, strlen(secret));
	crypto_generichash_final(&state, c->key.bytes, sizeof(c->key));
	forget(&c->young);
	forget(&c->old);
	c->len = 0;
}

void done_channel_set_place(struct done_channel *c, const char *database, uint32_t epoch)
{
	if (strcmp(c->database, database) == 0 && c->epoch == epoch)
		return;
	snprintf(c->database, sizeof(c->database), "%s", database);
	c->epoch = epoch;
	make_key(c);
}

const struct id_hash_key *done_channel_key(const struct done_channel *c)
{
	return c->has_key ? &c->key : NULL;
}

/* --- publishing --- */

static void on_published(void *owner, void *arg, const struct redis_reply *reply)
{
	struct done_channel *c = arg;

	(void)owner;
	c->is_mute = reply && reply->type == REPLY_ERROR;
}

void done_channel_publish(struct done_channel *c)
{
	if (c->len && c->redis) {
		resp_start(&c->command, 3);
		resp_words(&c->command, "PUBLISH", c->name);
		resp_bytes(&c->command, c->message, c->len);
		redis_send(c->redis, c->command.at, c->command.len, on_published, c);
	}
	c->len = 0;
}

static void begin_message(struct done_channel *c, int64_t base_ms)
{
	uint32_t epoch = htole32(c->epoch);
	uint64_t publisher = htole64(c->publisher), base = htole64((uint64_t)base_ms);

	memcpy(c->message, MAGIC, 4);
	memcpy(c->message + 4, &epoch, 4);
	memcpy(c->message + 8, &publisher, 8);
	memcpy(c->message + 16, &base, 8);
	c->base_ms = base_ms;
	c->len = HEADER;
}

void done_channel_add(struct done_channel *c, const struct done *event)
{
	int64_t after_ms = event->came_ms ? event->came_ms - c->base_ms : UNKNOWN;
	uint16_t after;

	if (!c->has_key || !c->redis)
		return;
	if (c->len + ENTRY > MESSAGE_BYTES || after_ms < 0 || (event->came_ms && after_ms >= UNKNOWN) ||
	    FAULT_POINT("done channel: a message of its own"))
		done_channel_publish(c);
	if (!c->len) {
		begin_message(c, event->came_ms);
		after_ms = event->came_ms ? 0 : UNKNOWN;
	}
	after = htole16((uint16_t)after_ms);
	memcpy(c->message + c->len, &event->hash, sizeof(event->hash));
	memcpy(c->message + c->len + sizeof(event->hash), &after, sizeof(after));
	c->len += ENTRY;
}

/* --- hearing --- */

/* Returns true if the message is from another listener and of our epoch. */
static bool read_header(const struct done_channel *c, const char *bytes, size_t len, int64_t *base_ms)
{
	uint32_t epoch;
	uint64_t publisher, base;

	if (len < HEADER || memcmp(bytes, MAGIC, 4) != 0)
		return false;
	memcpy(&epoch, bytes + 4, 4);
	memcpy(&publisher, bytes + 8, 8);
	memcpy(&base, bytes + 16, 8);
	*base_ms = (int64_t)(le64toh(base) & (INT64_MAX >> 8)); /* no sum can overflow */
	return c->has_key && le32toh(epoch) == c->epoch && le64toh(publisher) != c->publisher;
}

static void on_message(void *owner, const char *bytes, size_t len)
{
	static struct done events[MESSAGE_EVENTS];
	struct done_channel *c = owner;
	size_t n = 0;
	int64_t base_ms;

	if (!read_header(c, bytes, len, &base_ms))
		return;
	for (size_t at = HEADER; at + ENTRY <= len && n < MESSAGE_EVENTS; at += ENTRY) {
		uint16_t after;

		memcpy(&events[n].hash, bytes + at, sizeof(events[n].hash));
		memcpy(&after, bytes + at + sizeof(events[n].hash), sizeof(after));
		events[n++].came_ms = le16toh(after) == UNKNOWN ? 0 : base_ms + le16toh(after);
	}
	n = c->on_done(c->arg, events, n);
	for (size_t i = 0; i < n; i++)
		keep(c, &events[i]);
}

static void on_subscribed(void *owner, void *arg, const struct redis_reply *reply)
{
	struct done_channel *c = arg;

	(void)owner;
	if (!reply)
		return;
	c->is_heard = reply->type == REPLY_ARRAY;
	if (c->is_heard || c->is_deaf_told)
		return;
	c->is_deaf_told = true;
	if (!reply_is_error(reply, "NOPERM")) /* redis/server.c logs missing rights */
		log_warn("redis refuses to subscribe: copies of stored events are asked for one by one",
			 "channel=%s reason=%s", c->name,
			 reply->type == REPLY_ERROR ? reply->str : "unexpected answer");
}

static void subscribe(struct done_channel *c)
{
	resp_start(&c->command, 2);
	resp_words(&c->command, "SUBSCRIBE", c->name);
	redis_send(c->subscriber, c->command.at, c->command.len, on_subscribed, c);
}

static void on_state(void *owner, enum redis_state state)
{
	struct done_channel *c = owner;

	c->is_heard = false;
	if (state == REDIS_READY)
		subscribe(c);
}

static void check_deaf(struct done_channel *c)
{
	if (c->is_heard || c->is_deaf_told || !c->redis) {
		if (c->is_deaf_told && c->is_heard)
			log_info("the done channel is heard again", "channel=%s", c->name);
		c->is_deaf_told &= !c->is_heard;
		c->deaf_ms = 0;
	} else if (!c->deaf_ms) {
		c->deaf_ms = now_ms(c);
	} else if (now_ms(c) - c->deaf_ms > DEAF_MS) {
		c->is_deaf_told = true;
		log_warn("cannot subscribe to the done channel: copies of stored events are asked for one by one",
			 "channel=%s", c->name);
	}
}

static void on_timer(uv_timer_t *timer)
{
	static const char ping[] = "*1\r\n$4\r\nPING\r\n";
	struct done_channel *c = timer->data;

	check_deaf(c);
	if (c->is_heard)
		redis_send(c->subscriber, ping, sizeof(ping) - 1, NULL, NULL);
	else
		subscribe(c);
	if (c->is_mute) { /* see if PUBLISH works again */
		if (!c->len)
			begin_message(c, 0);
		done_channel_publish(c);
	}
}

bool done_channel_is_refused(const struct done_channel *c)
{
	return c->is_deaf_told || c->is_mute;
}

bool done_channel_is_heard(const struct done_channel *c)
{
	return c->is_heard;
}

/* --- life --- */

void done_channel_set_redis(struct done_channel *c, struct redis *redis)
{
	c->redis = redis;
	c->len = 0;
}

struct done_channel *done_channel_open(uv_loop_t *loop, const struct config *config, done_cb *on_done, void *arg)
{
	struct done_channel *c = memory_calloc(1, sizeof(*c));
	const struct redis_settings settings = {.url = config->redis,
						.ca = config->redis_ca,
						.cert = config->redis_cert,
						.key = config->redis_key,
						.timeout_ms = config->redis_timeout_ms,
						.is_second = true,
						.on_state = on_state,
						.on_message = on_message,
						.owner = c};

	c->loop = loop;
	c->config = config;
	c->on_done = on_done;
	c->arg = arg;
	c->name = memory_printf(DONE_CHANNEL_PREFIX "%s", config->claim_prefix);
	uv_random(NULL, NULL, &c->publisher, sizeof(c->publisher), 0, NULL);
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	if (strcmp(config->redis, "none") == 0)
		return c;
	uv_timer_start(&c->timer, on_timer, PING_MS, PING_MS);
	c->subscriber = redis_open(loop, &settings);
	return c;
}

static void release(void *object)
{
	struct done_channel *c = object;

	forget(&c->young);
	forget(&c->old);
	free(c->name);
	bytes_free(&c->command);
	free(c);
}

void done_channel_close(struct done_channel *c, void (*done)(void *arg), void *arg)
{
	ending_begin(&c->ending, c->subscriber ? 2 : 1, release, c, done, arg);
	if (c->subscriber)
		redis_close(c->subscriber, ending_part, &c->ending);
	ending_close(&c->ending, &c->timer);
}
