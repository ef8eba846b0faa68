/* redis_query.c owns a command's questions to Redis about claims and marks. It uses redis/connection.c on a loop of its
 * own, which runs until the answer has come. */
#include "commands/redis_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/session.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "forget.lua.h"
#include "base/log.h"
#include "measure.lua.h"
#include "redis/connection.h"
#include "road/mark.h"

/* What MEMORY USAGE leaves out of a key with a time to live: an entry and the slots in two tables. For keys of 104
 * bytes by MEMORY USAGE, used_memory grew by 160 to 165 bytes. */
#define TABLE_BYTES 60

static _Thread_local char failure[240]; /* what redis_query_failure() returns */

struct redis_query {
	uv_loop_t loop;
	uv_timer_t deadline;
	struct redis *redis;
	struct resp command;
	const char *prefix;
	size_t count;     /* keys in the current command */
	bool *is_claimed; /* its answers; NULL: not wanted */
	int64_t number;   /* the last answer, if a number */
	char *text;       /* buffer for an answer that is text; NULL: none */
	size_t text_size;
	bool is_waiting;
	bool is_answered;
	uint64_t timeout_ms;
};

const char *redis_query_failure(void)
{
	return failure;
}

static void fail(const char *why)
{
	snprintf(failure, sizeof(failure), "%s", why);
}

static void on_state(void *owner, enum redis_state state)
{
	struct redis_query *m = owner;

	if (state == REDIS_READY)
		m->is_waiting = false;
}

static void on_deadline(uv_timer_t *timer)
{
	struct redis_query *m = timer->data;

	m->is_waiting = false;
}

/* Runs the loop until a callback ends the wait. */
static void wait(struct redis_query *m)
{
	m->is_waiting = true;
	while (m->is_waiting)
		uv_run(&m->loop, UV_RUN_ONCE);
}

static const char no_answer[] = "no answer within --redis-timeout";

/* The loop does not run between questions, so this first learns what happened to the connection meanwhile. */
static bool become_ready(struct redis_query *m)
{
	uv_run(&m->loop, UV_RUN_NOWAIT);
	if (redis_state(m->redis) == REDIS_READY)
		return true;
	uv_timer_start(&m->deadline, on_deadline, m->timeout_ms, 0);
	wait(m);
	uv_timer_stop(&m->deadline);
	if (redis_state(m->redis) == REDIS_READY)
		return true;
	fail(*redis_trouble(m->redis) ? redis_trouble(m->redis) : no_answer);
	return false;
}

static void on_closed(void *arg)
{
	struct redis_query *m = arg;

	m->redis = NULL;
}

void redis_query_close(struct redis_query *m)
{
	if (!m)
		return;
	redis_close(m->redis, on_closed, m);
	uv_close((uv_handle_t *)&m->deadline, NULL);
	uv_run(&m->loop, UV_RUN_DEFAULT);
	uv_loop_close(&m->loop);
	resp_free(&m->command);
	free(m);
}

struct redis_query *redis_query_open(const struct config *config)
{
	struct redis_settings settings = {.url = config->redis,
					  .ca = config->redis_ca,
					  .cert = config->redis_cert,
					  .key = config->redis_key,
					  .timeout_ms = config->redis_timeout_ms,
					  .on_state = on_state};
	struct redis_query *m;

	if (strcmp(config->redis, "none") == 0)
		return NULL;
	m = memory_calloc(1, sizeof(*m));
	if (uv_loop_init(&m->loop)) {
		log_warn("cannot ask redis", "reason=%s", "the event loop cannot start");
		free(m);
		return NULL;
	}
	m->prefix = config->claim_prefix;
	uv_timer_init(&m->loop, &m->deadline);
	m->deadline.data = settings.owner = m;
	m->timeout_ms = (uint64_t)config->redis_timeout_ms;
	m->redis = redis_open(&m->loop, &settings);
	if (become_ready(m))
		return m;
	log_warn("cannot ask redis", "reason=%s", failure);
	redis_query_close(m);
	return NULL;
}

/* Every other value is a mark: the event has settled. */
static bool is_claim(const struct redis_reply *value)
{
	struct mark mark;

	return value->type == REPLY_STRING && !mark_read(&mark, value->str, (size_t)value->len);
}

static void on_answer(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis_query *m = owner;

	(void)arg;
	m->is_waiting = false;
	m->is_answered = reply && reply->type != REPLY_ERROR;
	if (!m->is_answered)
		fail(reply ? reply->str : no_answer);
	m->number = reply && reply->type == REPLY_INTEGER ? reply->integer : 0;
	if (m->text)
		snprintf(m->text, m->text_size, "%.*s", reply && reply->str ? (int)reply->len : 0,
			 reply && reply->str ? reply->str : "");
	if (!m->is_claimed || !m->is_answered)
		return;
	m->is_answered = reply->type == REPLY_ARRAY && reply->elements == m->count;
	for (size_t i = 0; m->is_answered && i < m->count; i++)
		m->is_claimed[i] = is_claim(reply->element[i]);
}

/* Sends the command and waits; redis/connection.c gives up after --redis-timeout, this after session_limit(). */
static int ask(struct redis_query *m)
{
	m->is_answered = false;
	if (session_is_late() || !become_ready(m) ||
	    redis_send(m->redis, m->command.bytes, m->command.len, on_answer, NULL))
		return -1;
	wait(m);
	return m->is_answered ? 0 : -1;
}

static void put_keys(struct redis_query *m, const struct slice *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *tag = redis_tag_text(m->redis, redis_tag(m->redis, ids[i].at, ids[i].len));
		char *head = memory_printf("%s%s", m->prefix, tag);

		resp_joined(&m->command, head, strlen(head), ids[i].at, ids[i].len);
		free(head);
	}
}

/* Picks the ids with this tag, and their places: on a cluster, the keys of a command must share a tag. */
static size_t pick(const struct redis_query *m, unsigned int tag, const struct slice *ids, size_t n,
		   struct slice *picked, size_t *places)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (redis_tag(m->redis, ids[i].at, ids[i].len) == tag) {
			picked[count] = ids[i];
			places[count++] = i;
		}
	return count;
}

typedef int(ask_fn)(struct redis_query *m, const struct slice *ids, size_t n);

/* Sends one command for each tag. is_claimed may be NULL. */
static int ask_by_tag(struct redis_query *m, const struct slice *ids, size_t n, bool *is_claimed, ask_fn *fn)
{
	struct slice *picked = memory_alloc((n + 1) * sizeof(*picked));
	size_t *places = memory_alloc((n + 1) * sizeof(*places));
	bool *found = memory_alloc(n + 1);
	int failed = 0;

	for (unsigned int tag = 0; tag < REDIS_TAGS && !failed; tag++) {
		size_t count = pick(m, tag, ids, n, picked, places);

		m->count = count;
		m->is_claimed = is_claimed ? found : NULL;
		failed = count ? fn(m, picked, count) : 0;
		for (size_t i = 0; i < count && is_claimed && !failed; i++)
			is_claimed[places[i]] = found[i];
	}
	free(picked);
	free(places);
	free(found);
	return failed;
}

static int look(struct redis_query *m, const struct slice *ids, size_t n)
{
	resp_start(&m->command, n + 1);
	resp_word(&m->command, "MGET");
	put_keys(m, ids, n);
	return ask(m);
}

int redis_query_find_claimed(struct redis_query *m, const struct slice *ids, size_t n, bool *is_claimed)
{
	return ask_by_tag(m, ids, n, is_claimed, look);
}

static int ask_of_key(struct redis_query *m, const char *command, struct slice id)
{
	m->is_claimed = NULL;
	resp_start(&m->command, 2);
	resp_word(&m->command, command);
	put_keys(m, &id, 1);
	return ask(m);
}

int redis_query_read(struct redis_query *m, struct slice id, char *value, size_t size, int64_t *ttl_ms)
{
	int failed;

	m->text = value;
	m->text_size = size;
	failed = ask_of_key(m, "GET", id);
	m->text = NULL;
	if (!failed)
		failed = ask_of_key(m, "PTTL", id);
	*ttl_ms = m->number;
	return failed;
}

static int forget(struct redis_query *m, const struct slice *ids, size_t n)
{
	resp_start(&m->command, n + 4);
	resp_word(&m->command, "EVAL");
	resp_word(&m->command, LUA_FORGET);
	resp_number(&m->command, (int64_t)n);
	put_keys(m, ids, n);
	resp_word(&m->command, MARK_DEAD_HEAD);
	return ask(m);
}

int redis_query_forget(struct redis_query *m, const struct slice *ids, size_t n)
{
	return m ? ask_by_tag(m, ids, n, NULL, forget) : 0;
}

/* Adds the prefix as a pattern for SCAN, with its special characters escaped. */
static void put_pattern(struct redis_query *m)
{
	char pattern[600];
	size_t n = 0;

	for (const char *c = m->prefix; *c && n < sizeof(pattern) - 3; c++) {
		if (strchr("*?[]\\^", *c))
			pattern[n++] = '\\';
		pattern[n++] = *c;
	}
	pattern[n++] = '*';
	resp_bytes(&m->command, pattern, n);
}

int64_t redis_query_measure(struct redis_query *m)
{
	if (!m)
		return 0;
	m->is_claimed = NULL;
	resp_start(&m->command, 5);
	resp_word(&m->command, "EVAL");
	resp_word(&m->command, LUA_MEASURE);
	resp_word(&m->command, "0");
	put_pattern(m);
	resp_word(&m->command, MARK_DONE_HEAD);
	return ask(m) == 0 && m->number ? m->number + TABLE_BYTES : 0;
}

int redis_query_command(struct redis_query *m, const char *const *words, size_t n, char *text, size_t size,
			int64_t *number)
{
	int failed;

	m->is_claimed = NULL;
	m->text = text;
	m->text_size = size;
	resp_start(&m->command, n);
	for (size_t i = 0; i < n; i++)
		resp_word(&m->command, words[i]);
	failed = ask(m);
	m->text = NULL;
	*number = m->number;
	return failed;
}
