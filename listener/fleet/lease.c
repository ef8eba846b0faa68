/* lease.c owns the lease of an exclusive source. It asks for the lease, or renews it, a few times a second, and gives
 * it up before another listener can have it. When in doubt, the lease is lost: such a feed refuses a second connection,
 * or sends it the same events under other ids.
 *
 * In Redis the lease is a key with a TTL, longer if Redis answers slowly. Without Redis it is a row of wsonce_leases;
 * an advisory lock would not do, because any role can take one. The owner changes the row at each renewal, and another
 * listener takes the lease once it has seen the row unchanged for TTL_MS. Both count from before the request was sent,
 * so the lease ends here before it ends in the server. With an SQLite file, whose processes are all on one host, it is
 * a kernel lock, which ends with the process; a frozen process keeps it. */
#include "fleet/lease.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/ending.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "hold.sql.h"
#include "lease.lua.h"
#include "postgres/connection.h"
#include "redis/connection.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "release.lua.h"

#define TTL_MS      1200   /* how long the lease lasts in the server after a renewal; longer if Redis is slow */
#define MARGIN_MS   300    /* give the lease up this long before it ends; more than ASK_MS, the period of the check */
#define ASK_MS      250    /* time between two requests */
#define LATE_MS     1000   /* timeout of a request to Redis */
#define LEAVE_MS    300    /* timeout of the release when closing */
#define LEFT_MS     4000   /* how long a useless lease is left to others: longer than it lasts in the server */
#define LAST_MS     2000   /* mean time between two requests after that, or if it would be useless: others come first */
#define LAST_FOR_MS 300000 /* how long after that */
#define GOOD_MS     3000   /* a lease that was held for this long was not lost because answers are often late */

#define TEXT_OID 25

enum lease_state { LEASE_WAITING, LEASE_HELD, LEASE_CLOSING };

struct lease {
	uv_loop_t *loop;
	struct lease_owner owner;
	const char *name;
	enum lease_state state;
	uv_timer_t timer;
	struct redis *redis;       /* exactly one of these three is set */
	struct postgres *postgres; /* with --redis none */
	char *path;                /* with --redis none and an SQLite file: the file of locks */
	int fd;                    /* of path; -1: not open */
	struct bytes command;
	char *key;
	char value[80];
	char row[140];   /* the last row seen in Postgres */
	int64_t seen_ms; /* loop clock, when it was first seen in this form */
	bool is_asking;
	bool is_refused;        /* the last answer was an error, which in a cluster may only name another server */
	char refusal[200];      /* why no lease can be had; "" if it can, or Redis answered but one error */
	struct backoff backoff; /* of late answers */
	int64_t rest_ms;        /* loop clock, when to ask again after one */
	int64_t left_ms;        /* loop clock, until when the lease is left to others; 0: never */
	int64_t ask_ms;         /* loop clock, when to ask again after that */
	int64_t taken_ms;
	int64_t answer_ms; /* how long Redis takes to answer: the longest time, which is forgotten slowly */
	int64_t ttl_ms;    /* of the last request */
	int64_t asked_ms;  /* loop clock */
	int64_t until_ms;  /* loop clock, when our lease ends unless renewed */
	struct ending ending;
	void (*done)(void *arg);
	void *done_arg;
};

static int64_t now_ms(const struct lease *l)
{
	return (int64_t)uv_now(l->loop);
}

static void take(struct lease *l)
{
	if (l->state != LEASE_WAITING || now_ms(l) < l->rest_ms)
		return;
	l->state = LEASE_HELD;
	l->taken_ms = now_ms(l);
	log_one_of_many(LOG_INFO, now_ms(l), "acquired an exclusive source", "source=%s", l->name);
	l->owner.on_acquired(l->owner.arg);
}

static void lose(struct lease *l, const char *why)
{
	if (l->state != LEASE_HELD)
		return;
	l->state = LEASE_WAITING;
	log_one_of_many(LOG_WARN, now_ms(l), "gave up an exclusive source", "source=%s reason=%s", l->name, why);
	l->owner.on_lost(l->owner.arg);
}

/* If answers are often late, the feed must not be dialled each time, and another listener should have the lease. */
static void rest(struct lease *l)
{
	l->rest_ms = now_ms(l) + backoff_next(&l->backoff, backoff_draw());
}

static void lose_late(struct lease *l)
{
	if (now_ms(l) - l->taken_ms >= GOOD_MS)
		backoff_reset(&l->backoff);
	rest(l);
	lose(l, "the lease could not be renewed in time");
}

/* The server granted or renewed the lease. It is taken if it lasts until the next answer. */
static void renew(struct lease *l)
{
	l->until_ms = l->asked_ms + l->ttl_ms - MARGIN_MS;
	if (now_ms(l) + l->answer_ms < l->until_ms)
		take(l);
	else if (l->state == LEASE_WAITING)
		rest(l);
}

/* Leaves the lease to others. It runs out in the server. */
static void leave(struct lease *l, const char *why)
{
	l->left_ms = l->rest_ms = now_ms(l) + LEFT_MS;
	lose(l, why);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

static void close_parts(struct lease *l);

/* --- in Redis --- */

static struct log_spell refusals; /* of all leases, for which one reason is likely */

static void note_refusal(struct lease *l, const char *error)
{
	snprintf(l->refusal, sizeof(l->refusal), "redis refuses the lease of this exclusive source: %s", error);
	log_spell_on(&refusals, now_ms(l), "redis refuses the lease of an exclusive source, nobody may read it", error);
}

static void on_redis_answer(void *owner, void *arg, const struct redis_reply *reply)
{
	struct lease *l = owner;
	int64_t ms = now_ms(l) - l->asked_ms;

	(void)arg;
	if (l->state == LEASE_CLOSING)
		return;
	l->is_asking = false;
	ms = ms < LATE_MS ? ms : LATE_MS; /* it is longer if this process stood still */
	l->answer_ms = ms > l->answer_ms ? ms : l->answer_ms - (l->answer_ms - ms) / 32;
	if (!reply)
		return;
	if (reply->type == REPLY_ERROR && l->is_refused)
		note_refusal(l, reply->str);
	l->is_refused = reply->type == REPLY_ERROR;
	if (reply->type != REPLY_INTEGER)
		return; /* unknown: the lease runs out, or the next answer decides */
	*l->refusal = '\0';
	log_spell_off(&refusals, now_ms(l), "redis grants leases of exclusive sources again");
	if (reply->integer == 1)
		renew(l);
	else
		lose(l, "another listener has the lease");
}

static void ask_redis(struct lease *l)
{
	if (l->is_asking || redis_state(l->redis) != REDIS_READY)
		return;
	l->asked_ms = now_ms(l);
	l->ttl_ms = 2 * (l->answer_ms + ASK_MS) + MARGIN_MS; /* it ends a while after the next answer */
	l->ttl_ms = l->ttl_ms > TTL_MS ? l->ttl_ms : TTL_MS;
	resp_start(&l->command, 6);
	resp_words(&l->command, "EVAL", LUA_LEASE, "1", l->key, l->value);
	resp_number(&l->command, l->ttl_ms);
	l->is_asking = redis_send(l->redis, l->command.at, l->command.len, on_redis_answer, NULL) == 0;
}

static void on_released(void *owner, void *arg, const struct redis_reply *reply)
{
	(void)arg, (void)reply;
	close_parts(owner);
}

static void release_in_redis(struct lease *l)
{
	resp_start(&l->command, 5);
	resp_words(&l->command, "EVAL", LUA_RELEASE, "1", l->key, l->value);
	l->is_asking = redis_send(l->redis, l->command.at, l->command.len, on_released, NULL) == 0;
}

/* A server that restarts may have forgotten a longer lease. If it does not answer, it stands still. */
static void on_redis_state(void *owner, enum redis_state state)
{
	struct lease *l = owner;

	if (state != REDIS_READY && now_ms(l) - l->asked_ms < LATE_MS && l->until_ms > l->asked_ms + TTL_MS - MARGIN_MS)
		l->until_ms = l->asked_ms + TTL_MS - MARGIN_MS;
}

/* --- in Postgres --- */

static void note_row(struct lease *l, const char *row)
{
	if (strcmp(l->row, row) == 0)
		return;
	snprintf(l->row, sizeof(l->row), "%s", row);
	l->seen_ms = now_ms(l);
}

static void on_postgres_answer(void *owner, const struct postgres_answer *answer)
{
	struct lease *l = owner;
	size_t len;

	l->is_asking = false;
	if (l->state == LEASE_CLOSING) {
		close_parts(l);
		return;
	}
	if (answer->result != POSTGRES_OK || !answer->rows)
		return; /* unknown: the lease runs out, or the next answer decides */
	*l->refusal = '\0';
	note_row(l, postgres_cell(answer, 0, 1, &len));
	if (*postgres_cell(answer, 0, 0, &len) == 't')
		renew(l);
	else
		lose(l, "another listener has the lease");
}

/* The server may have crashed, and wsonce_leases does not survive a crash. */
static void on_postgres_state(void *owner, enum postgres_state state)
{
	struct lease *l = owner;

	if (state == POSTGRES_DOWN) {
		l->is_asking = false;
		snprintf(l->refusal, sizeof(l->refusal), "no lease of the source: %s", postgres_error(l->postgres));
		lose(l, "the connection to Postgres ended");
	}
}

/* The pipeline's connection reports this and ends the program. */
static void on_postgres_unusable(void *owner, const char *sentence, int status)
{
	(void)owner, (void)sentence, (void)status;
}

/* Asks for the lease on behalf of owner ("" releases it). If the table still has row, its owner loses the lease. */
static void ask_for(struct lease *l, const char *owner, const char *row)
{
	const struct postgres_value values[] = {
		{TEXT_OID, l->key, strlen(l->key)}, {TEXT_OID, owner, strlen(owner)}, {TEXT_OID, row, strlen(row)}};

	if (l->is_asking || postgres_state(l->postgres) != POSTGRES_READY)
		return;
	l->asked_ms = now_ms(l);
	l->is_asking = postgres_query(l->postgres, SQL_HOLD, values, 3) == 0;
}

static void ask_postgres(struct lease *l)
{
	ask_for(l, l->value, now_ms(l) - l->seen_ms >= TTL_MS ? l->row : "");
}

/* --- beside a file --- */

/* Locks a byte of the file. The lock belongs to fd: with F_SETLK, closing any other descriptor would release it. No
 * other process would see a lock in a deleted file. */
static void ask_kernel(struct lease *l)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	struct stat st;

	lock.l_start = (off_t)(hash_mix(hash_text(l->key, strlen(l->key))) >> 2);
	if (l->fd >= 0 && (fstat(l->fd, &st) || !st.st_nlink)) {
		lose(l, "the lock file was deleted");
		close(l->fd);
		l->fd = -1;
		return;
	}
	if (l->fd < 0)
		l->fd = open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (l->fd < 0 || fcntl(l->fd, F_OFD_SETLK, &lock))
		return;
	l->until_ms = INT64_MAX;
	take(l);
}

/* --- life --- */

static void on_timer(uv_timer_t *timer)
{
	struct lease *l = timer->data;
	const char *why = l->owner.why_useless ? l->owner.why_useless(l->owner.arg) : NULL;

	if (l->state == LEASE_HELD && now_ms(l) >= l->until_ms)
		lose_late(l);
	if (l->state == LEASE_HELD && why)
		leave(l, why);
	if (l->state == LEASE_WAITING && (now_ms(l) < l->rest_ms || now_ms(l) < l->ask_ms))
		return;
	if (why || (l->left_ms && now_ms(l) - l->left_ms < LAST_FOR_MS))
		l->ask_ms = now_ms(l) + LAST_MS / 2 + backoff_draw() % LAST_MS;
	if (l->path)
		ask_kernel(l);
	else if (l->redis)
		ask_redis(l);
	else
		ask_postgres(l);
}

static void open_redis(struct lease *l, const struct config *config)
{
	const struct redis_settings settings = {
		.url = config->redis,
		.ca = config->redis_ca,
		.cert = config->redis_cert,
		.key = config->redis_key,
		.timeout_ms = config->redis_timeout_ms < LATE_MS ? config->redis_timeout_ms : LATE_MS,
		.is_second = true,
		.on_state = on_redis_state,
		.owner = l,
	};

	l->redis = redis_open(l->loop, &settings);
}

static void open_postgres(struct lease *l, const struct config *config)
{
	const struct postgres_settings settings = {
		.conninfo = config->postgres,
		.timeout_ms = config->postgres_timeout_ms,
		.tables = "{wsonce_leases}",
		.is_second = true,
		.on_state = on_postgres_state,
		.on_answer = on_postgres_answer,
		.on_unusable = on_postgres_unusable,
		.owner = l,
	};

	l->postgres = postgres_open(l->loop, &settings);
}

struct lease *lease_open(uv_loop_t *loop, const struct config *config, const char *name,
			 const struct lease_owner *owner)
{
	struct lease *l = memory_calloc(1, sizeof(*l));
	uint64_t nonce = 0;

	l->loop = loop;
	l->fd = -1;
	l->owner = *owner;
	l->name = name;
	l->backoff = (struct backoff){.base_ms = 100, .cap_ms = 5000};
	l->ttl_ms = TTL_MS;
	uv_random(NULL, NULL, &nonce, sizeof(nonce), 0, NULL);
	snprintf(l->value, sizeof(l->value), "%.40s@%016llx", config->instance_id, (unsigned long long)nonce);
	l->key = memory_printf("wsonce:lease:%s%s", config->claim_prefix, name);
	if (strcmp(config->redis, "none") != 0)
		open_redis(l, config);
	else if (config_store_path(config))
		l->path = memory_printf("%s-leases", config_store_path(config));
	else
		open_postgres(l, config);
	uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	uv_timer_start(&l->timer, on_timer, 0, ASK_MS);
	return l;
}

bool lease_is_held(const struct lease *l)
{
	return l->state == LEASE_HELD;
}

bool lease_is_left(const struct lease *l)
{
	return now_ms(l) < l->left_ms;
}

const char *lease_refusal(const struct lease *l)
{
	return *l->refusal ? l->refusal : NULL;
}

static void release(void *object)
{
	struct lease *l = object;

	if (l->fd >= 0)
		close(l->fd);
	bytes_free(&l->command);
	free(l->path);
	free(l->key);
	free(l);
}

/* May be called twice: the last answer may arrive after on_leave_deadline. */
static void close_parts(struct lease *l)
{
	if (l->ending.parts)
		return;
	ending_begin(&l->ending, l->path ? 1 : 2, release, l, l->done, l->done_arg);
	ending_close(&l->ending, &l->timer);
	if (l->redis)
		redis_close(l->redis, ending_part, &l->ending);
	else if (l->postgres)
		postgres_close(l->postgres, ending_part, &l->ending);
}

static void on_leave_deadline(uv_timer_t *timer)
{
	close_parts(timer->data);
}

void lease_close(struct lease *l, void (*done)(void *arg), void *arg)
{
	bool was_held = l->state == LEASE_HELD;

	l->state = LEASE_CLOSING;
	l->done = done;
	l->done_arg = arg;
	l->is_asking = false;
	if (l->redis && was_held)
		release_in_redis(l);
	else if (l->postgres && was_held)
		ask_for(l, "", l->row); /* does nothing while a request is pending; then the lease runs out */
	uv_timer_start(&l->timer, on_leave_deadline, l->is_asking ? LEAVE_MS : 0, 0);
}
