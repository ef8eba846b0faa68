/* server.c keeps the connection to one server: which one to connect to, the login, and reconnecting.
 * talk.c sends the commands; connection.c chooses among servers. */
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/counters.h"
#include "base/ending.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "base/secret.h"
#include "redis/rights.h"
#include "redis/sentinel.h"
#include "redis/talk.h"

#define RIGHTS_MAX  16   /* missing rights that are logged */
#define REASONS_MAX 8    /* reasons of one spell of failures that are logged at once */
#define SOON_MS     500  /* longest wait between tries if another server may take over */
#define LATE_MS     2000 /* longest wait otherwise */

static const char *const state_names[] = {"down", "connecting", "ready", "closing"};

struct server {
	uv_loop_t *loop;
	struct server_settings settings;
	struct talk *talk;
	struct sentinel *sentinel; /* NULL if none is asked */
	char master[256];          /* the host that the sentinels name, "" before they do */
	int master_port;
	const char *redacted; /* the URL without secrets */
	char name[280];       /* host:port of the current connection if several are possible; else "" */
	struct backoff backoff;
	uv_timer_t retry;
	char run[9];                 /* the first 8 digits of the server's run_id, "" if unknown */
	char client[40];             /* what redis_client() returns */
	bool was_refused;            /* the server refused the login: why the connection is about to end */
	char warned[200];            /* why the last try since it was REDIS_READY failed */
	uint64_t rights[RIGHTS_MAX]; /* hashes of the missing rights that were logged */
	size_t rights_count;
	int64_t ready_ms; /* when it became REDIS_READY */
	struct log_spell losses;
	uint64_t reasons[REASONS_MAX]; /* hashes of those that this spell has had */
	size_t reason_count;
	bool is_loss_told; /* the last loss was logged, so the next connection is, too */
	bool is_policy_logged;
	struct server_view view;
	struct ending ending;
};

/* Logs a failure at once, and then once a minute. A new reason is logged at once, too. A second connection fails
 * together with the first, which logs the failure. */
static void tell_failure(struct server *s, enum redis_state old, const char *event, const char *reason)
{
	uint64_t hash = hash_text(reason, strlen(reason));
	bool is_told, is_new = old != REDIS_READY;

	if (is_new)
		snprintf(s->warned, sizeof(s->warned), "%s", reason);
	if (s->settings.is_second)
		return;
	is_told = log_spell_on(&s->losses, (int64_t)uv_now(s->loop), event, reason);
	s->reason_count = s->losses.times == 1 ? 0 : s->reason_count;
	for (size_t i = 0; i < s->reason_count; i++)
		is_new &= s->reasons[i] != hash;
	if (is_new && s->reason_count < REASONS_MAX) {
		s->reasons[s->reason_count++] = hash;
		if (!is_told)
			log_warn(event, "reason=%s", reason);
	}
	s->is_loss_told = is_told || (old != REDIS_READY && s->is_loss_told);
}

static void set_state(struct server *s, enum redis_state state, const char *why)
{
	enum redis_state old = s->view.state;
	bool is_told = state == REDIS_READY ? s->is_loss_told || !s->losses.times
					    : old == REDIS_READY && state == REDIS_CLOSING;
	char reason[600];

	if (old == state)
		return;
	s->view.state = state;
	snprintf(reason, sizeof(reason), "%s%s%.300s", s->name, *s->name ? ": " : "", why ? why : "");
	if (state == REDIS_DOWN)
		tell_failure(s, old,
			     old == REDIS_READY ? "redis connection is lost"
			     : s->was_refused   ? "redis refused the login"
						: "cannot connect to redis",
			     reason);
	log_write(is_told && !s->settings.is_second ? LOG_INFO : LOG_DEBUG, "redis connection",
		  "from=%s to=%s url=%s server=%s reason=%s", state_names[old], state_names[state], s->redacted,
		  *s->name ? s->name : NULL, why);
	s->was_refused = false;
	if (s->sentinel)
		sentinel_hurry(s->sentinel, state != REDIS_READY);
	s->settings.on_state(s->settings.owner, state);
}

const struct server_view *server_view(const struct server *s)
{
	return &s->view;
}

int server_send(struct server *s, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	if (s->losses.times && s->view.state == REDIS_READY)
		log_spell_off(&s->losses, (int64_t)uv_now(s->loop),
			      s->losses.times > 1 ? "redis connection is stable again" : NULL);
	return s->view.state == REDIS_READY ? talk_ask(s->talk, bytes, len, cb, arg) : -1;
}

uint64_t server_unanswered(const struct server *s)
{
	return talk_unanswered(s->talk);
}

/* --- coming up --- */

static void refuse(struct server *s, const char *said)
{
	s->was_refused = true;
	talk_end(s->talk, said);
}

/* AUTH and SELECT must succeed. */
static void on_login(void *owner, void *arg, const struct redis_reply *reply)
{
	struct server *s = arg;

	(void)owner;
	if (reply_is_error(reply, "") && s->view.state == REDIS_CONNECTING)
		refuse(s, reply->str);
}

static const char *find_info(const struct server *s, const struct redis_reply *reply, const char *name, char *out,
			     size_t size)
{
	const char *at = reply && reply->type == REPLY_STRING ? strstr(reply->str, name) : NULL;

	if (!at)
		return NULL;
	at += strlen(name);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
	secret_mask(out, s->settings.address->urls[0].password);
	return out;
}

/* Checks the version: a claim needs SET with both NX and GET, which decides it in one round trip. */
static void on_server_info(void *owner, void *arg, const struct redis_reply *reply)
{
	struct server *s = arg;
	char version[32], what[100];

	(void)owner;
	if (reply_is_error(reply, "LOADING") || reply_is_error(reply, "BUSY") || reply_is_error(reply, "DENIED") ||
	    reply_is_error(reply, "ERR max number of clients")) {
		talk_end(s->talk, reply->str);
		return;
	}
	if (reply_is_error(reply, "NOAUTH")) {
		refuse(s, reply->str);
		return;
	}
	find_info(s, reply, "run_id:", s->run, sizeof(s->run));
	if (find_info(s, reply, "redis_mode:", version, sizeof(version)) ||
	    find_info(s, reply, "server_mode:", version, sizeof(version))) /* Valkey's name */
		s->view.is_cluster = strcmp(version, "cluster") == 0;
	if (!find_info(s, reply, "redis_version:", version, sizeof(version)) || strtol(version, NULL, 10) >= 7)
		return;
	snprintf(what, sizeof(what), "Redis %s is too old: SET with NX and GET needs 7.0 or later", version);
	refuse(s, what);
}

/* If the user may not run CLIENT ID, the connection has no number, and others know only from its heartbeats whether
 * this process is alive. */
static void on_client_id(void *owner, void *arg, const struct redis_reply *reply)
{
	struct server *s = arg;

	(void)owner;
	if (reply && reply->type == REPLY_INTEGER && strlen(s->run) == 8)
		snprintf(s->client, sizeof(s->client), "%s.%lld", s->run, reply->integer);
	else if (reply_is_error(reply, ""))
		log_debug("redis did not report the number of the connection", "reason=%s", reply->str);
}

/* If several servers are possible, this one must be a master. In a cluster each server knows the masters. */
static void on_role(void *owner, void *arg, const struct redis_reply *reply)
{
	struct server *s = arg;
	bool is_known =
		reply && reply->type == REPLY_ARRAY && reply->elements && reply->element[0].type == REPLY_STRING;

	(void)owner;
	if (is_known && !s->view.is_cluster && strcmp(reply->element[0].str, "master") != 0)
		talk_end(s->talk, "the server is a replica");
}

/* An evicted claim costs speed, not safety, but the operator should know. A replica is left before the connection is
 * ready; otherwise each try would log that it is ready and lost. */
static void on_memory_info(void *owner, void *arg, const struct redis_reply *reply)
{
	struct server *s = arg;
	char policy[40], most[40];

	(void)owner;
	if (!s->view.is_cluster && find_info(s, reply, "slave_read_only:", policy, sizeof(policy)) && *policy == '1') {
		talk_end(s->talk, TALK_REPLICA);
		return;
	}
	if (s->is_policy_logged || s->settings.is_second ||
	    !find_info(s, reply, "maxmemory_policy:", policy, sizeof(policy)) ||
	    !find_info(s, reply, "maxmemory:", most, sizeof(most)))
		return;
	s->is_policy_logged = true;
	if (strcmp(policy, "noeviction") != 0 && strcmp(most, "0") != 0)
		log_warn("redis may evict claims; set maxmemory-policy noeviction", "policy=%s maxmemory=%s", policy,
			 most);
}

/* The last answer of the login. */
static void on_logged_in(void *owner, void *arg, const struct redis_reply *reply)
{
	struct server *s = arg;

	(void)owner;
	if (!reply || s->view.state != REDIS_CONNECTING)
		return;
	s->warned[0] = '\0';
	s->ready_ms = (int64_t)uv_now(s->loop);
	counters.redis_connects += !s->settings.is_second;
	set_state(s, REDIS_READY, NULL);
}

static void on_open(void *owner)
{
	struct server *s = owner;
	const struct redis_address *a = s->settings.address;

	s->view.is_cluster = false;
	s->run[0] = s->client[0] = '\0';
	talk_log_in(s->talk, &a->urls[0], on_login, s);
	if (strcmp(a->db, "0") != 0)
		TALK_SAY(s->talk, on_login, s, "SELECT", a->db);
	TALK_SAY(s->talk, on_server_info, s, "INFO", "server");
	TALK_SAY(s->talk, on_client_id, s, "CLIENT", "ID");
	if (!s->settings.host && (a->is_sentinel || a->count > 1))
		TALK_SAY(s->talk, on_role, s, "ROLE");
	TALK_SAY(s->talk, on_memory_info, s, "INFO", "memory", "replication");
	TALK_SAY(s->talk, on_logged_in, s, "PING");
}

/* Rights that only a second connection needs. */
static bool is_of_channel(const char *missing)
{
	return strcmp(missing, "subscribe") == 0 || strcmp(missing, "publish") == 0 || strcmp(missing, "&") == 0;
}

/* Logs each missing right once: the errors repeat with every event. */
static void on_error(void *owner, const char *text)
{
	struct server *s = owner;
	char missing[60];
	uint64_t hash;

	if (!rights_read(text, missing, sizeof(missing)) || (s->settings.is_second && !is_of_channel(missing)))
		return;
	hash = hash_text(missing, strlen(missing));
	for (size_t i = 0; i < s->rights_count; i++)
		if (s->rights[i] == hash)
			return;
	if (s->rights_count < RIGHTS_MAX) {
		s->rights[s->rights_count++] = hash;
		log_warn("the user of redis lacks a right (docs/security.md has the list)",
			 "missing=%s url=%s reason=%s", missing, s->redacted, text);
	}
}

/* --- connecting --- */

static bool has_many(const struct server *s)
{
	return s->settings.address->is_sentinel || s->settings.address->count > 1 || s->settings.host;
}

static void connect_to(struct server *s, const char *host, int port, unsigned int nth)
{
	s->view.host = host ? host : "";
	if (has_many(s))
		snprintf(s->name, sizeof(s->name), "%s:%d", host, port);
	set_state(s, REDIS_CONNECTING, NULL);
	talk_connect(s->talk, host, port, nth, s->settings.address->urls[0].path);
}

static void on_retry(uv_timer_t *timer)
{
	struct server *s = timer->data;
	const struct redis_address *a = s->settings.address;
	size_t host = s->backoff.tries % a->count;

	if (s->settings.host) {
		connect_to(s, s->settings.host, s->settings.port, s->backoff.tries);
	} else if (!a->is_sentinel) {
		connect_to(s, a->is_socket ? NULL : a->urls[host].host, redis_address_port(a, host),
			   s->backoff.tries / (unsigned int)a->count);
	} else if (*s->master) {
		connect_to(s, s->master, s->master_port, s->backoff.tries);
	}
}

static void on_end(void *owner, const char *why)
{
	struct server *s = owner;

	/* A connection that outlived the longest wait counts as a success. One to a replica ends at once. */
	if (s->view.state == REDIS_READY && (int64_t)uv_now(s->loop) - s->ready_ms > s->backoff.cap_ms)
		backoff_reset(&s->backoff);
	if (s->view.state == REDIS_CLOSING)
		return;
	set_state(s, REDIS_DOWN, why);
	uv_timer_start(&s->retry, on_retry, (uint64_t)backoff_next(&s->backoff, backoff_draw()), 0);
}

/* Called repeatedly, mostly with the same master. */
static void on_named(void *owner, const char *host, int port)
{
	struct server *s = owner;
	char why[400];

	if (strcmp(s->master, host) == 0 && s->master_port == port)
		return;
	snprintf(why, sizeof(why), "the sentinels name another master, %.200s:%d", host, port);
	talk_end(s->talk, why); /* before its host name is overwritten */
	snprintf(s->master, sizeof(s->master), "%s", host);
	s->master_port = port;
	uv_timer_start(&s->retry, on_retry, 0, 0);
}

static void on_not_named(void *owner, const char *why)
{
	struct server *s = owner;

	if (s->view.state != REDIS_READY)
		tell_failure(s, s->view.state, "no sentinel names a master", why);
}

/* --- life --- */

static void open_parts(struct server *s)
{
	const struct redis_address *a = s->settings.address;
	const struct talk_settings of_talk = {
		.trust = s->settings.trust,
		.timeout_ms = s->settings.timeout_ms,
		.password = a->urls[0].password,
		.on_open = on_open,
		.on_end = on_end,
		.on_error = on_error,
		.on_message = s->settings.on_message,
		.owner = s,
		.asker = s->settings.asker,
	};

	s->talk = talk_new(s->loop, &of_talk);
	if (a->is_sentinel)
		s->sentinel = sentinel_open(s->loop, a, s->settings.trust, on_named, on_not_named, s);
}

struct server *server_open(uv_loop_t *loop, const struct server_settings *settings)
{
	struct server *s = memory_calloc(1, sizeof(*s));

	s->loop = loop;
	s->settings = *settings;
	s->redacted = settings->address->redacted;
	s->view.trouble = s->warned;
	s->view.client = s->client;
	s->view.host = "";
	s->backoff = (struct backoff){.base_ms = 100, .cap_ms = has_many(s) ? SOON_MS : LATE_MS};
	open_parts(s);
	uv_timer_init(loop, &s->retry);
	s->retry.data = s;
	uv_timer_start(&s->retry, on_retry, 0, 0);
	return s;
}

void server_close(struct server *s, void (*done)(void *arg), void *arg)
{
	set_state(s, REDIS_CLOSING, "shutting down");
	ending_begin(&s->ending, s->sentinel ? 3 : 2, free, s, done, arg);
	talk_free(s->talk, ending_part, &s->ending);
	if (s->sentinel)
		sentinel_close(s->sentinel, ending_part, &s->ending);
	ending_close(&s->ending, &s->retry);
}
