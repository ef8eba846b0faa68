/* done_log.c owns the log of commits: how it is written and read, and what was read of it in the last seconds. What
 * follows for an event is pipeline_claim.c's business.
 *
 * A hundred listeners that each ask for each event cost Redis more than all else. So after a commit its listener
 * appends 16 bytes for each event to a string of that second, and the others read what was added since they read last:
 * some tens of commands a second, whatever the rate of events. An entry is SipHash-128 of the id, under a key made of
 * the database, its epoch, the prefix and the secret of the marks: as a done mark it says that an id has a row, in one
 * epoch, and it cannot be made up without the secret. What is missing here is asked for as ever. */
#include "road/done_log.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/fault_point.h"
#include "redis/reply.h"
#include "redis/resp.h"

#define KEY_PREFIX    "wsonce:{done}:" /* the braces keep the log on one node of a cluster */
#define LARGE         12               /* listeners, from which on the log costs less than questions */
#define READ_MS       50    /* between two reads, or two ms for each listener: five hundred a second in all, */
#define READ_MOST_MS  200   /* until this is reached */
#define EXPECT_MS     500   /* so long it is read after an event was left to another */
#define STRAGGLE_MS   200   /* so long the last second's is read as well: clocks differ by a round trip */
#define TIME_MS       10000 /* between two questions for the time */
#define EXPIRE_S      "60"
#define ENTRY         crypto_shorthash_siphashx24_BYTES
#define READ_BYTES    (1 << 18) /* at once; the rest is read the next time */
#define FIRST_SLOTS   1024
#define MOST_SLOTS    65536 /* of a generation: half of them used, it is 1 MiB */
#define GENERATION_MS 2000

struct entry {
	uint64_t half[2];
};

/* What was read for a while: a table with open addressing. An entry of zeros is a free slot. */
struct generation {
	struct entry *slots;
	size_t size, count;
	int64_t since_ms;
};

/* How far one second's string was read. */
struct tail {
	int64_t second;
	size_t offset;
	bool is_asked;
	struct done_log *log;
};

struct done_log {
	uv_loop_t *loop;
	uv_timer_t timer;
	uv_prepare_t turn; /* before each wait for I/O: what this turn has committed is appended */
	struct redis *redis;
	char *head; /* of its keys; their end is the second */
	const char *prefix, *secret;
	size_t listeners;
	char database[40];
	uint32_t epoch;
	unsigned char key[crypto_shorthash_siphashx24_KEYBYTES];
	bool has_key;
	int64_t ahead_ms; /* the server's clock before the loop's */
	bool has_time;
	int64_t time_ms;     /* loop clock, when it was asked for last */
	int64_t expected_ms; /* loop clock, of the last done_log_expect(); 0: never */
	struct tail tails[2];
	struct generation young, old;
	struct entry *added; /* in this turn */
	size_t added_count, added_size;
	int64_t expiring; /* the second whose string has got an expiry from here */
	struct resp command;
	int open;
	void (*done)(void *arg);
	void *done_arg;
};

static int64_t now_ms(const struct done_log *l)
{
	return (int64_t)uv_now(l->loop);
}

static bool is_large(const struct done_log *l)
{
	return l->redis && l->has_key && l->has_time &&
	       (l->listeners >= LARGE || FAULT_POINT("done log: the fleet is large"));
}

/* --- what is known --- */

static struct entry entry_of(const struct done_log *l, const char *id, size_t len)
{
	struct entry e;

	crypto_shorthash_siphashx24((unsigned char *)&e, (const unsigned char *)id, len, l->key);
	return e;
}

static bool is_free(const struct entry *e)
{
	return !e->half[0] && !e->half[1];
}

/* Where e is, or would be. */
static struct entry *find_slot(const struct generation *g, const struct entry *e)
{
	size_t i = e->half[0] & (g->size - 1);

	while (!is_free(&g->slots[i]) && memcmp(&g->slots[i], e, sizeof(*e)) != 0)
		i = (i + 1) & (g->size - 1);
	return &g->slots[i];
}

/* A generation that nothing has followed is forgotten all the same. */
static bool has_entry(const struct done_log *l, const struct generation *g, const struct entry *e)
{
	return g->count && now_ms(l) - g->since_ms <= (int64_t)2 * GENERATION_MS && !is_free(find_slot(g, e));
}

static void grow(struct generation *g)
{
	struct generation more = {
		.size = g->size ? 2 * g->size : FIRST_SLOTS, .count = g->count, .since_ms = g->since_ms};

	more.slots = memory_calloc(more.size, sizeof(*more.slots));
	for (size_t i = 0; i < g->size; i++)
		if (!is_free(&g->slots[i]))
			*find_slot(&more, &g->slots[i]) = g->slots[i];
	free(g->slots);
	*g = more;
}

static void forget(struct generation *g)
{
	free(g->slots);
	*g = (struct generation){.slots = NULL};
}

static void keep(struct done_log *l, const struct entry *e)
{
	struct generation *g = &l->young;
	bool is_full = g->count >= MOST_SLOTS / 2;

	if (is_full || (g->count && now_ms(l) - g->since_ms > GENERATION_MS)) {
		forget(&l->old);
		l->old = *g;
		*g = (struct generation){.slots = NULL};
	}
	if (!g->count)
		g->since_ms = now_ms(l);
	if (2 * g->count >= g->size)
		grow(g);
	g->count += is_free(find_slot(g, e));
	*find_slot(g, e) = *e;
}

void done_log_learn(struct done_log *l, const char *id, size_t len)
{
	struct entry e;

	if (!l->has_key)
		return;
	e = entry_of(l, id, len);
	keep(l, &e);
}

bool done_log_has(const struct done_log *l, const char *id, size_t len)
{
	struct entry e;

	if (!l->has_key || (!l->young.count && !l->old.count))
		return false;
	e = entry_of(l, id, len);
	return has_entry(l, &l->young, &e) || has_entry(l, &l->old, &e);
}

static void make_key(struct done_log *l)
{
	char place[60];
	int len = snprintf(place, sizeof(place), "%s/%08x", l->database, l->epoch);
	crypto_generichash_state state;

	l->has_key = *l->database && l->epoch;
	crypto_generichash_init(&state, (const unsigned char *)place, (size_t)len, sizeof(l->key));
	crypto_generichash_update(&state, (const unsigned char *)l->prefix, strlen(l->prefix) + 1);
	if (l->secret)
		crypto_generichash_update(&state, (const unsigned char *)l->secret, strlen(l->secret));
	crypto_generichash_final(&state, l->key, sizeof(l->key));
	forget(&l->young);
	forget(&l->old);
	l->added_count = 0;
}

void done_log_set_place(struct done_log *l, const char *database, uint32_t epoch)
{
	if (strcmp(l->database, database) == 0 && l->epoch == epoch)
		return;
	snprintf(l->database, sizeof(l->database), "%s", database);
	l->epoch = epoch;
	make_key(l);
}

void done_log_set_fleet(struct done_log *l, size_t listeners)
{
	l->listeners = listeners;
}

/* --- the clock of the server, which all share --- */

static void on_time(void *owner, void *arg, const struct redis_reply *reply)
{
	struct done_log *l = arg;

	(void)owner;
	if (!reply || reply->type != REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REPLY_STRING ||
	    reply->element[1]->type != REPLY_STRING)
		return;
	l->ahead_ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
		      strtoll(reply->element[1]->str, NULL, 10) / 1000 - now_ms(l);
	l->has_time = true;
}

static void ask_time(struct done_log *l)
{
	l->time_ms = now_ms(l);
	resp_start(&l->command, 1);
	resp_word(&l->command, "TIME");
	redis_send(l->redis, l->command.bytes, l->command.len, on_time, l);
}

static int64_t server_ms(const struct done_log *l)
{
	return now_ms(l) + l->ahead_ms;
}

/* --- writing --- */

static void put_key(struct done_log *l, int64_t second)
{
	char number[24];

	snprintf(number, sizeof(number), "%lld", (long long)second);
	resp_joined(&l->command, l->head, strlen(l->head), number, strlen(number));
}

void done_log_add(struct done_log *l, const char *id, size_t len)
{
	if (!is_large(l))
		return;
	if (l->added_count == l->added_size) {
		l->added_size = l->added_size ? 2 * l->added_size : 64;
		l->added = memory_realloc(l->added, l->added_size * sizeof(*l->added));
	}
	l->added[l->added_count++] = entry_of(l, id, len);
}

static void expire(struct done_log *l, int64_t second)
{
	resp_start(&l->command, 3);
	resp_word(&l->command, "EXPIRE");
	put_key(l, second);
	resp_word(&l->command, EXPIRE_S);
	redis_send(l->redis, l->command.bytes, l->command.len, NULL, NULL);
	l->expiring = second;
}

static void on_turn(uv_prepare_t *turn)
{
	struct done_log *l = turn->data;
	int64_t second = server_ms(l) / 1000;
	size_t n = l->added_count;

	l->added_count = 0;
	if (!n || !l->redis)
		return;
	resp_start(&l->command, 3);
	resp_word(&l->command, "APPEND");
	put_key(l, second);
	resp_bytes(&l->command, (const char *)l->added, n * sizeof(*l->added));
	redis_send(l->redis, l->command.bytes, l->command.len, NULL, NULL);
	if (l->expiring != second)
		expire(l, second);
}

/* --- reading --- */

static void on_read(void *owner, void *arg, const struct redis_reply *reply)
{
	struct tail *t = arg;
	struct entry e;

	(void)owner;
	t->is_asked = false;
	if (!reply || reply->type != REPLY_STRING || !t->log->has_key)
		return;
	for (size_t at = 0; at + ENTRY <= reply->len; at += ENTRY) {
		memcpy(&e, reply->str + at, ENTRY);
		if (!is_free(&e))
			keep(t->log, &e);
	}
	t->offset += reply->len / ENTRY * ENTRY;
}

static void read_tail(struct done_log *l, struct tail *t)
{
	if (t->is_asked || !t->second)
		return;
	resp_start(&l->command, 4);
	resp_word(&l->command, "GETRANGE");
	put_key(l, t->second);
	resp_number(&l->command, (int64_t)t->offset);
	resp_number(&l->command, (int64_t)t->offset + READ_BYTES - 1);
	t->is_asked = redis_send(l->redis, l->command.bytes, l->command.len, on_read, t) == 0;
}

static void on_timer(uv_timer_t *timer)
{
	struct done_log *l = timer->data;
	int64_t ms = server_ms(l);
	struct tail *t = &l->tails[ms / 1000 % 2];

	if (!is_large(l) || now_ms(l) - l->expected_ms > EXPECT_MS) {
		uv_timer_stop(timer);
		return;
	}
	if (now_ms(l) - l->time_ms > TIME_MS)
		ask_time(l);
	if (t->second != ms / 1000 && !t->is_asked)
		*t = (struct tail){.second = ms / 1000, .log = l};
	read_tail(l, t);
	if (ms % 1000 < STRAGGLE_MS && l->tails[(ms / 1000 + 1) % 2].second == ms / 1000 - 1)
		read_tail(l, &l->tails[(ms / 1000 + 1) % 2]);
}

bool done_log_expect(struct done_log *l)
{
	uint64_t each = 2 * l->listeners, ms = each < READ_MS ? READ_MS : each > READ_MOST_MS ? READ_MOST_MS : each;

	if (!is_large(l))
		return false;
	l->expected_ms = now_ms(l);
	if (!uv_is_active((uv_handle_t *)&l->timer))
		uv_timer_start(&l->timer, on_timer, ms, ms);
	return true;
}

/* --- life --- */

void done_log_set_redis(struct done_log *l, struct redis *redis)
{
	l->redis = redis;
	l->has_time = false;
	l->expiring = 0;
	if (redis)
		ask_time(l);
}

struct done_log *done_log_open(uv_loop_t *loop, const char *prefix, const char *secret)
{
	struct done_log *l = memory_calloc(1, sizeof(*l));

	l->loop = loop;
	l->head = memory_printf(KEY_PREFIX "%s", prefix);
	l->prefix = prefix;
	l->secret = secret;
	l->tails[0].log = l->tails[1].log = l;
	uv_timer_init(loop, &l->timer);
	uv_prepare_init(loop, &l->turn);
	l->timer.data = l->turn.data = l;
	uv_prepare_start(&l->turn, on_turn);
	return l;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct done_log *l = handle->data;
	void (*done)(void *arg) = l->done;
	void *done_arg = l->done_arg;

	if (--l->open)
		return;
	forget(&l->young);
	forget(&l->old);
	free(l->added);
	free(l->head);
	resp_free(&l->command);
	free(l);
	done(done_arg);
}

void done_log_close(struct done_log *l, void (*done)(void *arg), void *arg)
{
	l->done = done;
	l->done_arg = arg;
	l->open = 2;
	uv_close((uv_handle_t *)&l->timer, on_handle_closed);
	uv_close((uv_handle_t *)&l->turn, on_handle_closed);
}
