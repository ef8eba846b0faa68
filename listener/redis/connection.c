/* connection.c owns the connection: finding, connecting, logging in, loading the scripts, noticing
 * that the server hangs, coming back. What is asked over it is claim.c's business. */
#include "redis/connection.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/backoff.h"
#include "base/memory.h"
#include "redis/resp.h"
#include "heartbeat.lua.h"
#include "base/log.h"
#include "base/poll.h"
#include "base/rare.h"
#include "base/secret.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "redis/reply_arena.h"
#include "base/resolve.h"
#include "base/counters.h"
#include "base/url.h"

#define READ_BYTES     65536 /* from the socket at once */
#define FEED_BYTES     16384 /* to hiredis at once: it moves what is left of them after each kilobyte */
#define READS_PER_TURN 4
#define ANSWER_BYTES   65536 /* of one answer; a longer one costs mallocs */
#define FIRST_REQUESTS 1024

static const char *const state_names[] = {"down", "connecting", "ready", "closing"};
static const char *const script_texts[REDIS_SCRIPTS] = {
	[REDIS_HEARTBEAT] = LUA_HEARTBEAT,
	[REDIS_RELEASE] = LUA_RELEASE,
	[REDIS_RENEW] = LUA_RENEW,
};

/* Whom an answer is for. */
struct request {
	redis_cb *cb;
	void *arg;
};

struct redis {
	_Alignas(16) char answer_room[ANSWER_BYTES];
	uv_loop_t *loop;
	struct redis_settings settings;
	struct url url;
	char *shown_url;
	redisContext *context; /* NULL in REDIS_DOWN and during the lookup */
	struct poll *poll;     /* of its socket */
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
	char run[9];     /* the head of the server's run_id; "": unknown */
	char client[40]; /* of redis_client() */
	struct resp command;
	struct arena answer;
	uv_prepare_t flush; /* before each wait for I/O: what this turn asks is sent */
	bool is_connected;
	bool was_refused; /* the server answered the login with an error, logged */
	char warned[200]; /* the trouble that was logged since it was REDIS_READY */
	int64_t ready_ms; /* since when it is REDIS_READY */
	bool is_policy_logged;
	enum redis_state state;
	int handles; /* open, for closing */
	void (*done)(void *arg);
	void *done_arg;
};

static void connect_now(struct redis *r);
static void retry_later(struct redis *r);

/* What keeps it from coming up is said once. */
static bool is_news(struct redis *r, enum redis_state state, const char *why)
{
	bool is_new = state == REDIS_DOWN && why && strncmp(r->warned, why, sizeof(r->warned) - 1) != 0;

	if (is_new)
		snprintf(r->warned, sizeof(r->warned), "%s", why);
	return is_new;
}

static void set_state(struct redis *r, enum redis_state state, const char *why)
{
	enum redis_state old = r->state;

	if (old == state)
		return;
	r->state = state;
	if (state == REDIS_READY || old == REDIS_READY || is_news(r, state, why))
		log_write(state == REDIS_DOWN ? LOG_WARN : LOG_INFO, "redis connection",
			  "from=%s to=%s url=%s reason=%s", state_names[old], state_names[state], r->shown_url, why);
	else
		log_debug("redis connection", "from=%s to=%s url=%s reason=%s", state_names[old], state_names[state],
			  r->shown_url, why);
	r->settings.on_state(r->settings.owner, state);
}

/* --- sending --- */

/* Twice the ring, its open requests at the places that the new mask gives them. */
static void grow_ring(struct redis *r)
{
	size_t size = r->requests ? 2 * (r->request_mask + 1) : RARELY_ONE("redis: the ring is small", FIRST_REQUESTS);
	struct request *more = memory_alloc(size * sizeof(*more));

	assert(r->requests || r->sent == r->answered);
	for (uint64_t i = r->answered; i < r->sent; i++)
		more[i & (size - 1)] = r->requests[i & r->request_mask];
	free(r->requests);
	r->requests = more;
	r->request_mask = size - 1;
}

static int send_now(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	if (!r->context || r->context->err)
		return -1;
	if (!r->requests || r->sent - r->answered > r->request_mask)
		grow_ring(r);
	if (redisAppendFormattedCommand(r->context, bytes, len) != REDIS_OK)
		memory_exhausted("hiredis", len);
	r->requests[r->sent++ & r->request_mask] = (struct request){cb, arg};
	return 0;
}

static void drop(struct redis *r, const char *why);

/* hiredis writes once; what the kernel does not take goes when it can. */
static void flush(struct redis *r)
{
	int is_done = 0;

	if (r->context->err || redisBufferWrite(r->context, &is_done) != REDIS_OK)
		drop(r, r->context->errstr);
	else
		poll_for(r->poll, UV_READABLE | (is_done ? 0 : UV_WRITABLE));
}

static void on_turn(uv_prepare_t *turn)
{
	struct redis *r = turn->data;

	if (r->is_connected && !(poll_events(r->poll) & UV_WRITABLE))
		flush(r);
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

const char *redis_client(const struct redis *r)
{
	return r->client;
}

const char *redis_script_sha(const struct redis *r, enum redis_script script)
{
	return r->sha[script];
}

/* --- going down --- */

/* Those who asked and have no answer. What they ask now is refused, for the state has changed. */
static void answer_all(struct redis *r)
{
	while (r->answered < r->sent) {
		struct request q = r->requests[r->answered++ & r->request_mask];

		if (q.cb)
			q.cb(r->settings.owner, q.arg, NULL);
	}
}

/* Ends the connection, if there is one. why may be a text inside it. */
static void drop(struct redis *r, const char *why)
{
	redisContext *context = r->context;

	/* One that lasted longer than the longest wait did its work; one that only came up, as to a replica, did not.
	 */
	if (r->state == REDIS_READY && (int64_t)uv_now(r->loop) - r->ready_ms > r->backoff.cap_ms)
		backoff_reset(&r->backoff);
	if (r->resolve)
		resolve_cancel(r->resolve);
	r->resolve = NULL;
	r->context = NULL;
	r->is_connected = false;
	poll_close(r->poll);
	r->poll = NULL;
	if (r->state != REDIS_CLOSING)
		set_state(r, REDIS_DOWN, why);
	if (context)
		redisFree(context);
	answer_all(r);
	if (r->state == REDIS_DOWN)
		retry_later(r);
}

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

static void retry_later(struct redis *r)
{
	uv_timer_start(&r->retry, on_retry, (uint64_t)backoff_next(&r->backoff, backoff_draw()), 0);
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
	if (now - r->mark_ms > r->settings.timeout_ms || RARE("redis: an answer is late"))
		drop(r, "no answer within the redis timeout");
}

/* --- coming up --- */

void redis_mask(const struct redis *r, char *text)
{
	secret_mask(text, r->url.password);
}

static void refuse(struct redis *r, const char *said)
{
	char what[200];

	snprintf(what, sizeof(what), "%s", said);
	log_write(r->was_refused ? LOG_DEBUG : LOG_ERROR, "redis refused the login", "url=%s reason=%s", r->shown_url,
		  what);
	r->was_refused = true;
	snprintf(r->warned, sizeof(r->warned), "%s", what);
	drop(r, what);
}

static bool is_error(const struct redis_reply *reply)
{
	return reply->type == REPLY_ERROR;
}

/* AUTH and SELECT must succeed. */
static void on_login(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis *r = arg;

	(void)owner;
	if (reply && is_error(reply) && r->state == REDIS_CONNECTING)
		refuse(r, reply->str);
}

static const char *find_info(const struct redis *r, const struct redis_reply *reply, const char *name, char *out,
			     size_t size)
{
	const char *at = reply && reply->type == REPLY_STRING ? strstr(reply->str, name) : NULL;

	if (!at)
		return NULL;
	at += strlen(name);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
	redis_mask(r, out);
	return out;
}

/* SET with NX and GET together is what tells a claim's fate in one round trip. */
static void on_server_info(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis *r = arg;
	char version[32], what[100];

	(void)owner;
	find_info(r, reply, "run_id:", r->run, sizeof(r->run));
	if (reply && is_error(reply) && strncmp(reply->str, "LOADING", 7) == 0) {
		drop(r, reply->str);
		return;
	}
	if (!find_info(r, reply, "redis_version:", version, sizeof(version)) || strtol(version, NULL, 10) >= 7)
		return;
	snprintf(what, sizeof(what), "Redis %s is too old: 7.0 or later is needed for SET with NX and GET", version);
	refuse(r, what);
}

/* A user who may not ask has no number, and others tell by its heartbeats alone whether this process lives. */
static void on_client_id(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis *r = arg;

	(void)owner;
	if (reply && reply->type == REPLY_INTEGER && strlen(r->run) == 8)
		snprintf(r->client, sizeof(r->client), "%s.%lld", r->run, reply->integer);
	else if (reply && is_error(reply))
		log_debug("redis does not tell the number of the connection", "reason=%s", reply->str);
}

/* Claims that are evicted cost speed, not safety; the operator should know. */
static void on_memory_info(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis *r = arg;
	char policy[40], most[40];

	(void)owner;
	if (r->is_policy_logged || !find_info(r, reply, "maxmemory_policy:", policy, sizeof(policy)) ||
	    !find_info(r, reply, "maxmemory:", most, sizeof(most)))
		return;
	r->is_policy_logged = true;
	if (strcmp(policy, "noeviction") != 0 && strcmp(most, "0") != 0)
		log_warn("redis may evict claims; set maxmemory-policy noeviction", "policy=%s maxmemory=%s", policy,
			 most);
}

static void on_script(struct redis *r, enum redis_script script, const struct redis_reply *reply)
{
	if (!reply)
		return;
	if (reply->type == REPLY_STRING && reply->len == 40)
		memcpy(r->sha[script], reply->str, 41);
	else if (is_error(reply))
		log_warn("redis rejected a script; claims end by their TTL only", "reason=%s", reply->str);
}

static void on_heartbeat_loaded(void *owner, void *arg, const struct redis_reply *reply)
{
	(void)owner;
	on_script(arg, REDIS_HEARTBEAT, reply);
}

static void on_release_loaded(void *owner, void *arg, const struct redis_reply *reply)
{
	(void)owner;
	on_script(arg, REDIS_RELEASE, reply);
}

/* The last answer of the login. */
static void on_renew_loaded(void *owner, void *arg, const struct redis_reply *reply)
{
	struct redis *r = arg;

	(void)owner;
	on_script(r, REDIS_RENEW, reply);
	if (!reply || r->state != REDIS_CONNECTING)
		return;
	r->was_refused = false;
	r->warned[0] = '\0';
	r->mark = r->sent;
	r->mark_ms = r->ready_ms = (int64_t)uv_now(r->loop);
	counters.redis_connects++;
	set_state(r, REDIS_READY, NULL);
}

static void send_words(struct redis *r, redis_cb *cb, size_t count, const char *const *words)
{
	resp_start(&r->command, count);
	for (size_t i = 0; i < count; i++)
		resp_word(&r->command, words[i]);
	send_now(r, r->command.bytes, r->command.len, cb, r);
}

#define SEND(r, cb, ...) \
	send_words(r, cb, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

void redis_load_scripts(struct redis *r)
{
	static redis_cb *const loaded[] = {on_heartbeat_loaded, on_release_loaded, on_renew_loaded};

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
	r->run[0] = r->client[0] = '\0';
	SEND(r, on_server_info, "INFO", "server");
	SEND(r, on_client_id, "CLIENT", "ID");
	SEND(r, on_memory_info, "INFO", "memory");
	redis_load_scripts(r);
}

/* --- receiving --- */

static void answer(struct redis *r, const struct redis_reply *reply)
{
	struct request q = r->requests[r->answered++ & r->request_mask];

	if (q.cb)
		q.cb(r->settings.owner, q.arg, reply);
}

/* After a failover, the name may belong to another server: only a new connection can find it. */
static bool is_readonly(const struct redis_reply *reply)
{
	return is_error(reply) && strncmp(reply->str, "READONLY", 8) == 0;
}

static const char too_large[] = "an answer is larger than 16 MiB";

/* Returns false if the connection is gone: a callback may end it. */
static bool answer_those_read(struct redis *r, const redisContext *context)
{
	void *reply = NULL;
	bool is_replica;

	for (;;) {
		if (redisReaderGetReply(context->reader, &reply) != REDIS_OK) {
			drop(r, context->reader->err == REDIS_ERR_OOM ? too_large : context->reader->errstr);
			return false;
		}
		if (!reply)
			return true;
		if (r->answered == r->sent) {
			drop(r, "an answer to no command");
			return false;
		}
		/* Errors are logged, and a server that does not know AUTH repeats its arguments. */
		if (is_error(reply))
			redis_mask(r, ((struct redis_reply *)reply)->str);
		is_replica = is_readonly(reply);
		answer(r, reply);
		arena_clear(
			&r->answer); /* not before: a part of the next answer may be there, until the rest is read */
		if (r->context != context)
			return false;
		if (is_replica) {
			drop(r, "the server is a replica and takes no claims (READONLY)");
			return false;
		}
	}
}

static bool feed(struct redis *r, const char *bytes, size_t len)
{
	redisContext *context = r->context;

	for (size_t at = 0; at < len; at += FEED_BYTES) {
		size_t part = len - at < FEED_BYTES ? len - at : FEED_BYTES;

		if (redisReaderFeed(context->reader, bytes + at, part) != REDIS_OK) {
			drop(r, context->reader->errstr);
			return false;
		}
		if (!answer_those_read(r, context))
			return false;
		if (context->reader->len > REPLY_BYTES) {
			drop(r, too_large);
			return false;
		}
	}
	return true;
}

/* A listener under load gets more answers in one turn of the loop than one read takes; were they left
 * for the next turns, claims would wait behind messages. */
static void read_answers(struct redis *r)
{
	static char bytes[READ_BYTES];

	for (int i = 0; i < READS_PER_TURN; i++) {
		size_t most = RARELY_ONE("redis: answers come in bytes", sizeof(bytes));
		ssize_t n = recv(r->context->fd, bytes, most, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			drop(r, n ? strerror(errno) : "the server closed the connection");
			return;
		}
		if (!feed(r, bytes, (size_t)n) || (size_t)n < sizeof(bytes))
			return;
	}
}

/* The first sign of the socket tells whether it could connect. */
static void finish_connect(struct redis *r)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(r->context->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
		drop(r, strerror(error ? error : errno));
		return;
	}
	r->is_connected = true;
	log_in(r);
	flush(r);
}

/* libuv reports an error on the socket as a status; what is wrong is found out by reading. */
static void on_socket(void *arg, int fd, int status, int events)
{
	struct redis *r = arg;

	(void)fd;
	if (status < 0)
		events = UV_READABLE;
	if (!r->is_connected)
		finish_connect(r);
	else if (events & UV_READABLE)
		read_answers(r);
	if (r->is_connected && events & UV_WRITABLE && poll_events(r->poll) & UV_WRITABLE)
		flush(r);
}

/* --- connecting --- */

/* hiredis's own event interface is not used: it keeps a callback on the heap for each command, and in
 * 0.14 its adapter for libuv drops errors of the socket, so that a refused connection never calls back. */
static void open_context(struct redis *r, const char *address)
{
	if (address)
		r->context = redisConnectNonBlock(address, r->url.port ? r->url.port : 6379);
	else
		r->context = redisConnectUnixNonBlock(r->url.path);
	memory_given(r->context, "hiredis");
	if (!r->context->err)
		r->poll = poll_open(r->loop, r->context->fd, on_socket, r);
	if (!r->poll) {
		drop(r, r->context->err ? r->context->errstr : "the socket cannot be watched");
		return;
	}
	poll_for(r->poll, UV_READABLE | UV_WRITABLE);
	arena_clear(&r->answer);
	reply_use_arena(r->context->reader, &r->answer);
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
	r->resolve = resolve_start(r->loop, r->url.host, r->backoff.tries, on_address, r);
	if (!r->resolve)
		drop(r, "no name can be looked up");
}

struct redis *redis_open(uv_loop_t *loop, const struct redis_settings *settings)
{
	struct redis *r = memory_calloc(1, sizeof(*r));

	url_parse(&r->url, settings->url); /* which config.c has checked */
	r->shown_url = url_redact(settings->url);
	if (!r->url.host[0])
		r->url.host = (char *)"127.0.0.1";
	r->loop = loop;
	r->settings = *settings;
	r->backoff = (struct backoff){.base_ms = 100, .cap_ms = 2000};
	r->answer = (struct arena){.room = r->answer_room,
				   .size = RARELY_ONE("redis: an answer has no room", sizeof(r->answer_room))};
	r->handles = 3;
	uv_timer_init(loop, &r->retry);
	uv_timer_init(loop, &r->watchdog);
	uv_prepare_init(loop, &r->flush);
	r->retry.data = r->watchdog.data = r->flush.data = r;
	uv_prepare_start(&r->flush, on_turn);
	uint64_t tick = (uint64_t)(settings->timeout_ms / 8 > 10 ? settings->timeout_ms / 8 : 10);
	uv_timer_start(&r->watchdog, on_watchdog, tick, tick);
	uv_timer_start(&r->retry, on_retry, 0, 0);
	return r;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct redis *r = handle->data;

	if (--r->handles)
		return;
	r->done(r->done_arg);
	url_clear(&r->url);
	free(r->shown_url);
	resp_free(&r->command);
	arena_clear(&r->answer);
	free(r->requests);
	free(r);
}

void redis_close(struct redis *r, void (*done)(void *arg), void *arg)
{
	r->done = done;
	r->done_arg = arg;
	set_state(r, REDIS_CLOSING, "shutting down");
	drop(r, NULL);
	uv_close((uv_handle_t *)&r->retry, on_handle_closed);
	uv_close((uv_handle_t *)&r->watchdog, on_handle_closed);
	uv_close((uv_handle_t *)&r->flush, on_handle_closed);
}
