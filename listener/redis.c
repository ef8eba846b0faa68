/* redis.c owns the connection: finding, connecting, logging in, loading the scripts, noticing
 * that the server hangs, coming back. What is asked over it is claim.c's business. */
#include "redis.h"

#include <assert.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "backoff.h"
#include "command.h"
#include "log.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "resolve.h"
#include "stats.h"
#include "url.h"

#define READS_PER_TURN 16
#define FIRST_REQUESTS 1024

static const char *const state_names[] = {"down", "connecting", "ready", "closing"};
static const char *const script_texts[REDIS_SCRIPTS] = {
	[REDIS_RELEASE] = LUA_RELEASE,
	[REDIS_RENEW] = LUA_RENEW,
};

/* Between hiredis and libuv. libuv reports an error on the socket as a status; hiredis finds out
 * by itself what is wrong once it reads and writes, so that is what an error becomes here. The
 * adapter of hiredis 0.14 drops it instead, and a refused connection would never call back. */
struct bridge {
	uv_poll_t poll;
	redisAsyncContext *context; /* NULL: gone, only the handle is left to close */
	int events;                 /* polled for */
};

/* Whom an answer is for. */
struct request {
	redis_cb *cb;
	void *arg;
};

struct redis {
	uv_loop_t *loop;
	struct redis_settings settings;
	struct url url;
	char *shown_url;
	enum redis_state state;
	redisAsyncContext *context; /* NULL in REDIS_DOWN */
	struct resolve *resolve;
	struct backoff backoff;
	uv_timer_t retry;
	uv_timer_t watchdog;
	/* Redis answers in the order of the questions, so what each answer is for waits in a ring. */
	struct request *requests;
	size_t request_mask; /* of the ring: its size, a power of two, less one */
	uint64_t sent;
	uint64_t answered;
	/* The deadline: command number mark was the newest at mark_ms. If it is not answered
	 * within the timeout, the server hangs. One mark at a time bounds the cost. */
	uint64_t mark;
	int64_t mark_ms;
	int64_t connecting_ms;
	char sha[REDIS_SCRIPTS][41];
	struct command command;
	bool was_refused; /* the server answered the login with an error, logged */
	bool is_policy_logged;
	int handles; /* open, for closing */
	void (*done)(void *arg);
	void *done_arg;
};

static void connect_now(struct redis *r);
static void retry_later(struct redis *r);

static void set_state(struct redis *r, enum redis_state state, const char *why)
{
	enum redis_state old = r->state;

	if (old == state)
		return;
	r->state = state;
	if (state == REDIS_READY || old == REDIS_READY)
		log_write(state == REDIS_DOWN ? LOG_WARN : LOG_INFO, "redis connection",
			  "from=%s to=%s url=%s reason=%s", state_names[old], state_names[state], r->shown_url, why);
	else
		log_debug("redis connection", "from=%s to=%s url=%s reason=%s", state_names[old], state_names[state],
			  r->shown_url, why);
	r->settings.on_state(r->settings.owner, state);
}

/* --- the bridge --- */

static void on_bridge_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* hiredis reads 16 KiB at a time. A listener under load gets more answers than that in one turn of
 * the loop; were they left for the next turns, claims would wait behind messages. */
static void read_answers(struct bridge *b)
{
	int waiting = 0;

	for (int i = 0; i < READS_PER_TURN && b->context; i++) {
		redisAsyncHandleRead(b->context);
		if (!b->context || ioctl(b->context->c.fd, FIONREAD, &waiting) || waiting == 0)
			return;
	}
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct bridge *b = poll->data;

	if (status < 0)
		events = UV_READABLE | UV_WRITABLE;
	if (b->context && events & UV_READABLE)
		read_answers(b);
	if (b->context && events & UV_WRITABLE)
		redisAsyncHandleWrite(b->context);
	/* libuv stops a handle that had an error; what is still wanted is polled for again. */
	if (b->context && status < 0 && b->events)
		uv_poll_start(&b->poll, b->events, on_poll);
}

static void bridge_want(struct bridge *b, int events)
{
	if (b->events == events)
		return;
	b->events = events;
	if (events)
		uv_poll_start(&b->poll, events, on_poll);
	else
		uv_poll_stop(&b->poll);
}

static void bridge_add_read(void *data)
{
	struct bridge *b = data;

	bridge_want(b, b->events | UV_READABLE);
}

static void bridge_del_read(void *data)
{
	struct bridge *b = data;

	bridge_want(b, b->events & ~UV_READABLE);
}

static void bridge_add_write(void *data)
{
	struct bridge *b = data;

	bridge_want(b, b->events | UV_WRITABLE);
}

static void bridge_del_write(void *data)
{
	struct bridge *b = data;

	bridge_want(b, b->events & ~UV_WRITABLE);
}

static void bridge_cleanup(void *data)
{
	struct bridge *b = data;

	b->context = NULL;
	uv_close((uv_handle_t *)&b->poll, on_bridge_closed);
}

static int bridge_attach(uv_loop_t *loop, redisAsyncContext *context)
{
	struct bridge *b = calloc(1, sizeof(*b));

	if (!b)
		return -1;
	if (uv_poll_init(loop, &b->poll, context->c.fd)) {
		free(b);
		return -1;
	}
	b->poll.data = b;
	b->context = context;
	context->ev.data = b;
	context->ev.addRead = bridge_add_read;
	context->ev.delRead = bridge_del_read;
	context->ev.addWrite = bridge_add_write;
	context->ev.delWrite = bridge_del_write;
	context->ev.cleanup = bridge_cleanup;
	return 0;
}

/* --- sending --- */

static void on_reply(redisAsyncContext *context, void *reply, void *privdata)
{
	struct redis *r = privdata;
	struct request q = r->requests[r->answered++ & r->request_mask];

	(void)context;
	if (q.cb)
		q.cb(r->settings.owner, q.arg, reply);
}

/* Twice the ring, its open requests at the places that the new mask gives them. */
static int grow_ring(struct redis *r)
{
	size_t size = r->requests ? 2 * (r->request_mask + 1) : FIRST_REQUESTS;
	struct request *more = malloc(size * sizeof(*more));

	if (!more)
		return -1;
	assert(r->requests || r->sent == r->answered);
	for (uint64_t i = r->answered; i < r->sent; i++)
		more[i & (size - 1)] = r->requests[i & r->request_mask];
	free(r->requests);
	r->requests = more;
	r->request_mask = size - 1;
	return 0;
}

/* hiredis ends a connection that has an error with its next read or write. */
static void spoil(struct redis *r)
{
	if (!r->context || r->context->c.err)
		return;
	r->context->c.err = REDIS_ERR_OOM;
	snprintf(r->context->c.errstr, sizeof(r->context->c.errstr), "out of memory");
}

/* hiredis 0.14 does not tell when it has no memory for a command, or for whom its answer is for. A
 * command that goes out without the latter would shift all answers after it to the wrong questions;
 * one that does not go out is still answered, with NULL, when the connection ends. */
static int send_now(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	redisAsyncContext *context = r->context;
	const struct redisCallback *newest;
	struct request request = {cb, arg};

	if (!context || context->c.err || !len)
		return -1;
	if ((!r->requests || r->sent - r->answered > r->request_mask) && grow_ring(r))
		return -1;
	newest = context->replies.tail;
	if (redisAsyncFormattedCommand(context, on_reply, r, bytes, len) != REDIS_OK)
		spoil(r);
	if (context->replies.tail == newest) {
		spoil(r);
		return -1;
	}
	if (context->c.err)
		request.cb = NULL;
	r->requests[r->sent++ & r->request_mask] = request;
	return context->c.err ? -1 : 0;
}

int redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	return r->state == REDIS_READY ? send_now(r, bytes, len, cb, arg) : -1;
}

uint64_t redis_unanswered(const struct redis *r)
{
	return r->sent - r->answered;
}

enum redis_state redis_state(const struct redis *r)
{
	return r->state;
}

const char *redis_script_sha(const struct redis *r, enum redis_script script)
{
	return r->sha[script];
}

/* --- going down --- */

/* Ends the connection, if there is one. hiredis answers every open command with NULL. */
static void drop(struct redis *r, const char *why)
{
	redisAsyncContext *context = r->context;

	if (r->resolve)
		resolve_cancel(r->resolve);
	r->resolve = NULL;
	r->context = NULL;
	if (r->state != REDIS_CLOSING)
		set_state(r, REDIS_DOWN, why);
	if (context) {
		context->data = NULL;
		redisAsyncFree(context);
	}
	if (r->state == REDIS_DOWN)
		retry_later(r);
}

/* hiredis frees the context after this. */
static void on_disconnected(const redisAsyncContext *context, int status)
{
	struct redis *r = context->data;

	if (!r)
		return;
	r->context = NULL;
	if (r->state == REDIS_CLOSING)
		return;
	set_state(r, REDIS_DOWN, status == REDIS_OK ? "closed" : context->errstr);
	retry_later(r);
}

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

static uint32_t random_number(void)
{
	uint32_t n = 0;

	uv_random(NULL, NULL, &n, sizeof(n), 0, NULL);
	return n;
}

static void retry_later(struct redis *r)
{
	uv_timer_start(&r->retry, on_retry, (uint64_t)backoff_next(&r->backoff, random_number()), 0);
}

static void on_watchdog(uv_timer_t *timer)
{
	struct redis *r = timer->data;
	int64_t now = (int64_t)uv_now(r->loop);

	if (r->state == REDIS_CONNECTING && now - r->connecting_ms > r->settings.timeout_ms) {
		drop(r, "no answer while connecting");
		return;
	}
	if (r->state != REDIS_READY)
		return;
	if (r->answered >= r->mark) { /* the marked command was answered: mark the newest */
		r->mark = r->sent;
		r->mark_ms = now;
		return;
	}
	if (now - r->mark_ms > r->settings.timeout_ms)
		drop(r, "no answer within the redis timeout");
}

/* --- coming up --- */

static void refuse(struct redis *r, const char *what)
{
	log_write(r->was_refused ? LOG_DEBUG : LOG_ERROR, "redis refused the login", "url=%s reason=%s", r->shown_url,
		  what);
	r->was_refused = true;
	drop(r, what);
}

static bool is_error(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR;
}

/* AUTH and SELECT must succeed. */
static void on_login(void *owner, void *arg, const redisReply *reply)
{
	struct redis *r = arg;

	(void)owner;
	if (reply && is_error(reply) && r->state == REDIS_CONNECTING)
		refuse(r, reply->str);
}

static const char *find_info(const redisReply *reply, const char *name, char *out, size_t size)
{
	const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;

	if (!at)
		return NULL;
	at += strlen(name);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
	return out;
}

/* SET with NX and GET together is what tells a claim's fate in one round trip. */
static void on_server_info(void *owner, void *arg, const redisReply *reply)
{
	struct redis *r = arg;
	char version[32], what[100];

	(void)owner;
	if (reply && is_error(reply) && strncmp(reply->str, "LOADING", 7) == 0) {
		drop(r, reply->str);
		return;
	}
	if (!find_info(reply, "redis_version:", version, sizeof(version)) || strtol(version, NULL, 10) >= 7)
		return;
	snprintf(what, sizeof(what), "Redis %s is too old: 7.0 or later is needed for SET with NX and GET", version);
	refuse(r, what);
}

/* Claims that are evicted cost speed, not safety; the operator should know. */
static void on_memory_info(void *owner, void *arg, const redisReply *reply)
{
	struct redis *r = arg;
	char policy[40], most[40];

	(void)owner;
	if (r->is_policy_logged || !find_info(reply, "maxmemory_policy:", policy, sizeof(policy)) ||
	    !find_info(reply, "maxmemory:", most, sizeof(most)))
		return;
	r->is_policy_logged = true;
	if (strcmp(policy, "noeviction") != 0 && strcmp(most, "0") != 0)
		log_warn("redis may evict claims: use maxmemory-policy noeviction", "policy=%s maxmemory=%s", policy,
			 most);
}

static void on_script(struct redis *r, enum redis_script script, const redisReply *reply)
{
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_STRING && reply->len == 40)
		memcpy(r->sha[script], reply->str, 41);
	else if (is_error(reply))
		log_warn("redis did not take a script: claims end by their TTL only", "reason=%s", reply->str);
}

static void on_release_loaded(void *owner, void *arg, const redisReply *reply)
{
	(void)owner;
	on_script(arg, REDIS_RELEASE, reply);
}

/* The last answer of the login. */
static void on_renew_loaded(void *owner, void *arg, const redisReply *reply)
{
	struct redis *r = arg;

	(void)owner;
	on_script(r, REDIS_RENEW, reply);
	if (!reply || r->state != REDIS_CONNECTING)
		return;
	r->was_refused = false;
	backoff_reset(&r->backoff);
	r->mark = r->sent;
	r->mark_ms = (int64_t)uv_now(r->loop);
	stats.redis_connects++;
	set_state(r, REDIS_READY, NULL);
}

/* A login of which a part was not sent would end in the wrong database, or in none. */
static void send_words(struct redis *r, redis_cb *cb, size_t count, const char *const *words)
{
	command_start(&r->command, count);
	for (size_t i = 0; i < count; i++)
		command_word(&r->command, words[i]);
	if (send_now(r, r->command.bytes, r->command.len, cb, r))
		spoil(r);
}

#define SEND(r, cb, ...) \
	send_words(r, cb, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

void redis_load_scripts(struct redis *r)
{
	static redis_cb *const loaded[] = {on_release_loaded, on_renew_loaded};

	for (int i = 0; i < REDIS_SCRIPTS; i++)
		SEND(r, loaded[i], "SCRIPT", "LOAD", script_texts[i]);
}

static void log_in(struct redis *r)
{
	const char *db = r->url.path + (r->url.path[0] == '/');
	bool is_socket = strcmp(r->url.scheme, "unix") == 0;

	if (r->url.password && r->url.user && *r->url.user)
		SEND(r, on_login, "AUTH", r->url.user, r->url.password);
	else if (r->url.password)
		SEND(r, on_login, "AUTH", r->url.password);
	if (!is_socket && *db && strcmp(db, "0") != 0)
		SEND(r, on_login, "SELECT", db);
	SEND(r, on_server_info, "INFO", "server");
	SEND(r, on_memory_info, "INFO", "memory");
	redis_load_scripts(r);
}

static void on_connected(const redisAsyncContext *context, int status)
{
	struct redis *r = context->data;

	if (!r)
		return;
	if (status == REDIS_OK) {
		log_in(r);
		return;
	}
	r->context = NULL; /* hiredis frees it */
	set_state(r, REDIS_DOWN, context->errstr);
	retry_later(r);
}

static void open_context(struct redis *r, const char *address)
{
	redisAsyncContext *context;

	if (address)
		context = redisAsyncConnect(address, r->url.port ? r->url.port : 6379);
	else
		context = redisAsyncConnectUnix(r->url.path);
	if (!context || context->err || bridge_attach(r->loop, context)) {
		drop(r, context && context->err ? context->errstr : "out of memory");
		if (context)
			redisAsyncFree(context);
		return;
	}
	context->data = r;
	r->context = context;
	redisAsyncSetConnectCallback(context, on_connected);
	redisAsyncSetDisconnectCallback(context, on_disconnected);
}

static void on_address(void *arg, const char *address, const char *error)
{
	struct redis *r = arg;

	r->resolve = NULL;
	if (address)
		open_context(r, address);
	else
		drop(r, error);
}

static void connect_now(struct redis *r)
{
	assert(!r->context);
	r->connecting_ms = (int64_t)uv_now(r->loop);
	set_state(r, REDIS_CONNECTING, NULL);
	if (strcmp(r->url.scheme, "unix") == 0) {
		open_context(r, NULL);
		return;
	}
	r->resolve = resolve_start(r->loop, r->url.host, on_address, r);
	if (!r->resolve)
		drop(r, "out of memory");
}

struct redis *redis_open(uv_loop_t *loop, const struct redis_settings *settings, char *error, size_t size)
{
	struct redis *r = calloc(1, sizeof(*r));

	if (!r || url_parse(&r->url, settings->url) || !(r->shown_url = url_redact(settings->url))) {
		snprintf(error, size, "out of memory");
		goto fail;
	}
	if (strcmp(r->url.scheme, "rediss") == 0) {
		snprintf(error, size,
			 "--redis: this build has no TLS for Redis: use redis:// through a tunnel, or unix://");
		goto fail;
	}
	if (!r->url.host[0])
		r->url.host = (char *)"127.0.0.1";
	r->loop = loop;
	r->settings = *settings;
	r->backoff = (struct backoff){.base_ms = 100, .cap_ms = 2000};
	r->handles = 2;
	uv_timer_init(loop, &r->retry);
	uv_timer_init(loop, &r->watchdog);
	r->retry.data = r->watchdog.data = r;
	uint64_t tick = (uint64_t)(settings->timeout_ms / 8 > 10 ? settings->timeout_ms / 8 : 10);
	uv_timer_start(&r->watchdog, on_watchdog, tick, tick);
	uv_timer_start(&r->retry, on_retry, 0, 0);
	return r;
fail:
	if (r) {
		url_clear(&r->url);
		free(r->shown_url);
		free(r);
	}
	return NULL;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct redis *r = handle->data;

	if (--r->handles)
		return;
	r->done(r->done_arg);
	url_clear(&r->url);
	free(r->shown_url);
	command_free(&r->command);
	free(r->requests);
	free(r);
}

void redis_close(struct redis *r, void (*done)(void *arg), void *arg)
{
	r->done = done;
	r->done_arg = arg;
	set_state(r, REDIS_CLOSING, "shutting down");
	drop(r, NULL);
	uv_close((uv_handle_t *)&r->retry, on_timer_closed);
	uv_close((uv_handle_t *)&r->watchdog, on_timer_closed);
}
