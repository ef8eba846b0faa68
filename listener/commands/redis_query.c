/* redis_query.c sends a command's queries to Redis, by redis/connection.c on a loop that ends with the answers. */
#include "commands/redis_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "commands/session.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "forget.lua.h"
#include "base/log.h"
#include "redis/connection.h"
#include "claim/mark.h"

#define INFO_BYTES 32768

static _Thread_local char failure[240]; /* what redis_query_failure() returns */

struct redis_query {
	uv_loop_t loop;
	uv_timer_t deadline; /* deadline for become_ready() */
	struct redis *redis;
	struct bytes command;
	const struct config *config;
	size_t unanswered; /* commands without an answer */
	bool has_failed;   /* a command failed, or could not be sent */
	int64_t number;    /* the last answer, if it was a number; else 0 */
	char *text;        /* an answer that is text is copied here; NULL: not wanted */
	size_t text_size;
};

static const char no_answer[] = "no answer within --redis-timeout";

const char *redis_query_failure(void)
{
	return failure;
}

static void fail(struct redis_query *m, const char *why)
{
	m->has_failed = true;
	snprintf(failure, sizeof(failure), "%s", why);
}

/* --- life --- */

/* These two wake become_ready(). */
static void on_state(void *owner, enum redis_state state)
{
	(void)owner, (void)state;
}

static void on_deadline(uv_timer_t *timer)
{
	(void)timer;
}

/* Waits for the connection. The loop does not run between commands, so this first runs it to see what has happened. */
static bool become_ready(struct redis_query *m)
{
	uv_run(&m->loop, UV_RUN_NOWAIT);
	uv_timer_start(&m->deadline, on_deadline, (uint64_t)m->config->redis_timeout_ms, 0);
	while (redis_state(m->redis) != REDIS_READY && uv_is_active((uv_handle_t *)&m->deadline))
		uv_run(&m->loop, UV_RUN_ONCE);
	uv_timer_stop(&m->deadline);
	if (redis_state(m->redis) == REDIS_READY)
		return true;
	fail(m, *redis_trouble(m->redis) ? redis_trouble(m->redis) : no_answer);
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
	bytes_free(&m->command);
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
	m->config = config;
	uv_timer_init(&m->loop, &m->deadline);
	settings.owner = m;
	m->redis = redis_open(&m->loop, &settings);
	if (become_ready(m))
		return m;
	log_warn("cannot ask redis", "reason=%s", failure);
	redis_query_close(m);
	return NULL;
}

/* --- commands --- */

/* arg: a bool that becomes true if the answer is a claim, not a mark; or NULL. */
static void on_answer(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis_query *m = owner;
	bool *is_claim = arg;
	struct mark mark;

	m->unanswered--;
	if (!reply || reply->type == REPLY_ERROR)
		fail(m, reply ? reply->str : no_answer);
	m->number = reply && reply->type == REPLY_INTEGER ? reply->integer : 0;
	if (m->text)
		snprintf(m->text, m->text_size, "%.*s", reply && reply->str ? (int)reply->len : 0,
			 reply && reply->str ? reply->str : "");
	if (is_claim)
		*is_claim = reply && reply->type == REPLY_STRING && !mark_read(&mark, reply->str, (size_t)reply->len);
}

static void put_key(struct redis_query *m, const char *consumer, struct slice id)
{
	AUTO_FREE char *prefix = config_claim_prefix(m->config, consumer);
	AUTO_FREE char *head = memory_printf("%s%s", prefix, redis_is_cluster(m->redis) ? REDIS_CLUSTER_TAG : "");

	resp_joined(&m->command, head, strlen(head), id.at, id.len);
}

/* Starts a command, with the consumer's key of id in place of %. */
static void start(struct redis_query *m, const char *const *words, size_t n, const char *consumer, struct slice id)
{
	resp_start(&m->command, n);
	for (size_t i = 0; i < n; i++)
		if (id.at && strcmp(words[i], "%") == 0)
			put_key(m, consumer, id);
		else
			resp_word(&m->command, words[i]);
}

/* Sends a command for each id, and waits for all answers. consumers: one for each id; NULL: that of the settings. */
static int ask_each(struct redis_query *m, const char *const *words, size_t n, const char *const *consumers,
		    const struct slice *ids, size_t count, bool *is_claimed)
{
	m->has_failed = !become_ready(m);
	for (size_t i = 0; i < count && !m->has_failed; i++) {
		start(m, words, n, consumers ? consumers[i] : m->config->consumer, ids[i]);
		m->has_failed = redis_send(m->redis, m->command.at, m->command.len, on_answer,
					   is_claimed ? &is_claimed[i] : NULL);
		m->unanswered += !m->has_failed;
	}
	while (m->unanswered) /* redis/connection.c gives up after --redis-timeout */
		uv_run(&m->loop, UV_RUN_ONCE);
	return m->has_failed ? -1 : 0;
}

int redis_query_find_claimed(struct redis_query *m, const struct slice *ids, size_t n, bool *is_claimed)
{
	return ask_each(m, (const char *const[]){"GET", "%"}, 2, NULL, ids, n, is_claimed);
}

int redis_query_forget(struct redis_query *m, const char *const *consumers, const struct slice *ids, size_t n)
{
	static const char *const words[] = {"EVAL", LUA_FORGET, "1", "%", MARK_DEAD_HEAD};

	return m ? ask_each(m, words, 5, consumers, ids, n, NULL) : 0;
}

/* id.at may be NULL: no word is a key. */
static int ask(struct redis_query *m, const char *const *words, size_t n, struct slice id, char *text, size_t size)
{
	int failed;

	m->text = text;
	m->text_size = size;
	failed = ask_each(m, words, n, NULL, &id, 1, NULL);
	m->text = NULL;
	return failed;
}

int redis_query_read(struct redis_query *m, struct slice id, char *value, size_t size, int64_t *ttl_ms)
{
	if (ask(m, (const char *const[]){"GET", "%"}, 2, id, value, size) ||
	    ask(m, (const char *const[]){"PTTL", "%"}, 2, id, NULL, 0))
		return -1;
	*ttl_ms = m->number;
	return 0;
}

int redis_query_command(struct redis_query *m, const char *const *words, size_t n, char *text, size_t size)
{
	return ask(m, words, n, (struct slice){NULL, 0}, text, size);
}

json_t *redis_query_info(struct redis_query *m)
{
	static const char *const info[] = {"INFO"};
	AUTO_FREE char *text = memory_calloc(1, INFO_BYTES);
	char *rest = text;
	json_t *fields = json_object();

	redis_query_command(m, info, 1, text, INFO_BYTES);
	for (char *line; (line = strsep(&rest, "\r\n"));) {
		char *value = strchr(line, ':');

		if (!value)
			continue;
		*value++ = '\0';
		json_object_set_new(fields, line, make_json(value, strlen(value)));
	}
	return fields;
}
