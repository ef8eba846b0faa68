/* redis.c replaces the sockets of hiredis and plays the Redis behind them: keys with expiry, the commands and scripts
 * that the program uses, and faults. Answers are bytes, parsed by hiredis's own reader. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "presence.lua.h"
#include "inherit.lua.h"
#include "process.h"
#include "redis.h"
#include "lease.lua.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "seize.lua.h"

#define WORDS       3200
#define KEYS        1024
#define MEMBERS     64
#define PREFIX      "dedup:"
#define CONNECTIONS 1024

struct bytes {
	const char *at;
	size_t len;
};

/* --- the server --- */

struct key {
	const char *name;
	size_t len;
	const char *value; /* NULL if absent */
	size_t value_len;
	int64_t expires; /* -1 for never */
};

/* What a write changed, so that a promotion can undo it. */
struct write {
	struct write *before;
	int64_t at;
	size_t key;
	struct key old;
};

struct member {
	char name[64], said[300];
	int64_t at_ms;
};

struct connection {
	redisContext context; /* must be first: cast from redisContext */
	bool is_up, is_refused, is_closed;
	bool is_lost;       /* its server is gone, and the client is not told */
	int64_t busy_until; /* until when its earlier commands run */
	char *out, *in;
	size_t out_len, out_size, in_len, in_at, in_size;
	int process, number;
	bool is_subscriber;
};

static struct {
	struct key keys[KEYS];
	size_t count;
	struct write *writes;
	struct member fleet[MEMBERS];
	int members;
	int64_t fleet_expires_ms;
	const char *refusal; /* the error for writes; with is_loading, for all commands */
	bool is_loading, is_full;
	int64_t refusal_until, stalled_until, down_until, slow_until, odd_until, deaf_until;
	int odd; /* per thousand commands that get an unusual error */
	struct connection *connections[CONNECTIONS];
	int connection_count;
} redis;

enum script { PRESENCE, RELEASE, RENEW, SEIZE, INHERIT, LEASE, NO_SCRIPT };
static const char *const script_texts[] = {LUA_PRESENCE, LUA_RELEASE, LUA_RENEW, LUA_SEIZE, LUA_INHERIT, LUA_LEASE};

static struct key *find_key(struct bytes name)
{
	for (size_t i = 0; i < redis.count; i++) {
		struct key *k = &redis.keys[i];

		if (k->len != name.len || memcmp(k->name, name.at, name.len) != 0)
			continue;
		if (k->value && k->expires >= 0 && k->expires <= sim_now()) {
			checker_lapsed(k->value, k->expires);
			k->value = NULL;
		}
		return k;
	}
	if (redis.count == KEYS)
		abort();
	redis.keys[redis.count] = (struct key){sim_copy(name.at, name.len), name.len, NULL, 0, -1};
	return &redis.keys[redis.count++];
}

static void note_write(struct key *k)
{
	struct write *w = sim_alloc(sizeof(*w));

	*w = (struct write){redis.writes, sim_now(), (size_t)(k - redis.keys), *k};
	redis.writes = w;
}

static void put_value(struct key *k, struct bytes value, int64_t seconds)
{
	note_write(k);
	k->value = sim_copy(value.at, value.len);
	k->value_len = value.len;
	k->expires = seconds < 0 ? -1 : sim_now() + seconds * 1000000;
}

static void delete_key(struct key *k)
{
	note_write(k);
	k->value = NULL;
}

/* --- answers --- */

struct answer {
	char *bytes;
	size_t len, size;
};

static void add(struct answer *a, const char *bytes, size_t len)
{
	if (a->len + len > a->size) {
		char *more = sim_alloc(a->size = 2 * (a->len + len) + 256);

		if (a->len)
			memcpy(more, a->bytes, a->len);
		a->bytes = more;
	}
	memcpy(a->bytes + a->len, bytes, len);
	a->len += len;
}

static void add_text(struct answer *a, const char *text)
{
	add(a, text, strlen(text));
}

static void add_number(struct answer *a, char kind, long long n)
{
	char text[32];

	add(a, text, (size_t)snprintf(text, sizeof(text), "%c%lld\r\n", kind, n));
}

static void add_value(struct answer *a, const char *value, size_t len)
{
	if (!value) {
		add_text(a, "$-1\r\n");
		return;
	}
	add_number(a, '$', (long long)len);
	add(a, value, len);
	add_text(a, "\r\n");
}

static void add_key(struct answer *a, const struct key *k)
{
	add_value(a, k->value, k->value_len);
}

/* --- commands --- */

struct command {
	struct bytes words[WORDS];
	size_t count;
	int process, connection;
};

static bool is_word(const struct command *c, size_t i, const char *text)
{
	return i < c->count && c->words[i].len == strlen(text) &&
	       strncasecmp(c->words[i].at, text, c->words[i].len) == 0;
}

static int64_t number(struct bytes word)
{
	return strtoll(sim_copy(word.at, word.len), NULL, 10);
}

static bool is_same(struct bytes a, const char *b, size_t len)
{
	return b && a.len == len && memcmp(a.at, b, len) == 0;
}

/* A mark or a claim was written under an id's key. */
static void tell_checker(const struct command *c, struct bytes key, struct bytes value, bool was_there)
{
	if (key.len > strlen(PREFIX) && strncmp(key.at, PREFIX, strlen(PREFIX)) == 0)
		checker_key(c->process, key.at + strlen(PREFIX), key.len - strlen(PREFIX), value.at, value.len,
			    was_there);
}

/* SET key value [NX] [GET] [EX s] [PX ms] */
static void run_set(const struct command *c, struct answer *a)
{
	struct key *k = find_key(c->words[1]);
	bool is_new_only = false, wants_old = false;
	int64_t seconds = -1, ms = -1;

	for (size_t i = 3; i < c->count; i++) {
		is_new_only |= is_word(c, i, "NX");
		wants_old |= is_word(c, i, "GET");
		if (is_word(c, i, "EX"))
			seconds = number(c->words[++i]);
		else if (is_word(c, i, "PX"))
			ms = number(c->words[++i]);
	}
	if (is_new_only)
		sim_claims(c->process);
	if (wants_old)
		add_key(a, k);
	else if (is_new_only && k->value)
		add_text(a, "$-1\r\n");
	else
		add_text(a, "+OK\r\n");
	if (is_new_only && k->value)
		return;
	tell_checker(c, c->words[1], c->words[2], k->value != NULL);
	put_value(k, c->words[2], seconds);
	if (ms >= 0)
		k->expires = sim_now() + ms * 1000;
}

/* To every subscriber, whichever channel: there is one. Defined below, with the transport. */
static void run_publish(const struct command *c, struct answer *a);

static void run_subscribe(const struct command *c, struct answer *a)
{
	redis.connections[c->connection - 1]->is_subscriber = true;
	add_number(a, '*', 3);
	add_value(a, "subscribe", 9);
	add_value(a, c->words[1].at, c->words[1].len);
	add_number(a, ':', 1);
}

/* As RESP2 answers a connection that has subscribed. */
static void run_ping(struct answer *a)
{
	add_number(a, '*', 2);
	add_value(a, "pong", 4);
	add_value(a, "", 0);
}

/* lua/presence.lua */
static void run_presence(const struct command *c, struct answer *a)
{
	struct bytes name = c->words[4], said = c->words[5];
	int64_t now = sim_wall() / 1000, lasts = number(c->words[6]);
	int kept = 0, own = -1;

	if (redis.fleet_expires_ms <= sim_wall() / 1000)
		redis.members = 0;
	for (int i = 0; i < redis.members; i++)
		if (redis.fleet[i].at_ms > now - lasts && redis.fleet[i].at_ms <= now)
			redis.fleet[kept++] = redis.fleet[i];
	redis.members = kept;
	for (int i = 0; i < redis.members; i++)
		if (is_same(name, redis.fleet[i].name, strlen(redis.fleet[i].name)))
			own = i;
	if (own < 0 && redis.members < MEMBERS) {
		own = redis.members++;
		snprintf(redis.fleet[own].name, sizeof(redis.fleet[own].name), "%.*s", (int)name.len, name.at);
	}
	redis.fleet[own].at_ms = now;
	snprintf(redis.fleet[own].said, sizeof(redis.fleet[own].said), "%.*s", (int)said.len, said.at);
	redis.fleet_expires_ms = now + lasts;
	add_number(a, '*', 2LL * (redis.members - 1));
	for (int i = 0; i < redis.members; i++) {
		if (i == own)
			continue;
		add_value(a, redis.fleet[i].name, strlen(redis.fleet[i].name));
		add_value(a, redis.fleet[i].said, strlen(redis.fleet[i].said));
	}
}

/* lua/release.lua and lua/renew.lua */
static void run_claims(const struct command *c, enum script script, struct answer *a)
{
	size_t n = (size_t)number(c->words[2]);
	long long changed = 0;

	for (size_t i = 0; i < n; i++) {
		struct bytes value = c->words[3 + n + i];
		struct key *k = find_key(c->words[3 + i]);

		checker_own(c->process, value.at, value.len);
		if (!is_same(value, k->value, k->value_len))
			continue;
		if (script == RELEASE)
			delete_key(k);
		else
			put_value(k, value, number(c->words[3 + 2 * n]));
		changed++;
	}
	add_number(a, ':', changed);
}

/* lua/seize.lua */
static void run_seize(const struct command *c, struct answer *a)
{
	struct key *k = find_key(c->words[3]);

	if (k->value && !is_same(c->words[4], k->value, k->value_len)) {
		add_key(a, k);
		return;
	}
	tell_checker(c, c->words[3], c->words[5], false);
	put_value(k, c->words[5], number(c->words[6]));
	add_text(a, "$-1\r\n");
}

/* lua/inherit.lua */
static void run_inherit(const struct command *c, struct answer *a)
{
	size_t n = (size_t)number(c->words[2]);
	struct bytes dead = c->words[3 + n];

	add_number(a, '*', (long long)n);
	for (size_t i = 0; i < n; i++) {
		struct key *k = find_key(c->words[3 + i]);
		struct bytes ours = c->words[5 + n + i];

		if (k->value && (k->value_len < dead.len || memcmp(k->value, dead.at, dead.len) != 0)) {
			add_key(a, k);
			continue;
		}
		if (k->value)
			checker_inherited(k->value);
		tell_checker(c, c->words[3 + i], ours, false);
		put_value(k, ours, number(c->words[4 + n]));
		add_text(a, "$-1\r\n");
	}
}

/* CLIENT ID, and CLIENT LIST ID id ... */
static void run_client(const struct command *c, struct answer *a)
{
	char text[4096] = "";
	size_t len = 0;

	if (is_word(c, 1, "ID")) {
		add_number(a, ':', c->connection);
		return;
	}
	for (size_t i = 3; i < c->count; i++) {
		int64_t id = number(c->words[i]);
		const struct connection *is =
			id >= 1 && id <= redis.connection_count ? redis.connections[id - 1] : NULL;

		if (is && !is->is_closed && !is->is_lost)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "id=%lld addr=? fd=8 name=\n",
						(long long)id);
	}
	add_value(a, text, len);
}

/* lua/lease.lua, in whole seconds */
static void run_lease(const struct command *c, struct answer *a)
{
	struct key *k = find_key(c->words[3]);

	if (k->value && !is_same(c->words[4], k->value, k->value_len) && k->expires >= 0 &&
	    k->expires - sim_now() <= 10000000) {
		add_number(a, ':', 0);
		return;
	}
	put_value(k, c->words[4], number(c->words[5]) / 1000);
	add_number(a, ':', 1);
}

static enum script script_of(const struct command *c)
{
	for (int i = 0; i < NO_SCRIPT; i++)
		if (is_same(c->words[1], script_texts[i], strlen(script_texts[i])))
			return (enum script)i;
	return NO_SCRIPT;
}

static void run_script(const struct command *c, enum script script, struct answer *a)
{
	if (script == PRESENCE)
		run_presence(c, a);
	else if (script == RELEASE || script == RENEW)
		run_claims(c, script, a);
	else if (script == SEIZE)
		run_seize(c, a);
	else if (script == INHERIT)
		run_inherit(c, a);
	else if (script == LEASE)
		run_lease(c, a);
	else
		process_fail("a script that SimRedis does not know: %.*s", (int)c->words[1].len, c->words[1].at);
}

static void run_info(struct answer *a)
{
	static const char text[] =
		"redis_version:7.0.15\r\nrun_id:0123456789abcdef\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n";

	add_value(a, text, strlen(text));
}

static const char *name_of(const struct command *c)
{
	static const char *const scripts[] = {"presence.lua", "release.lua", "renew.lua", "seize.lua",
					      "inherit.lua",  "lease.lua",   "?"};
	static const char *const names[] = {"SET", "INFO", "CLIENT", "PUBLISH", "SUBSCRIBE", "PING", NULL};

	if (is_word(c, 0, "EVAL"))
		return scripts[script_of(c)];
	for (int i = 0; names[i]; i++)
		if (is_word(c, 0, names[i]))
			return names[i];
	return "?";
}

static bool is_write(const struct command *c)
{
	return !is_word(c, 0, "INFO") && !is_word(c, 0, "CLIENT") && !is_word(c, 0, "PUBLISH") &&
	       !is_word(c, 0, "SUBSCRIBE") && !is_word(c, 0, "PING");
}

/* Does the script write, without declaring at its beginning that it may? Redis refuses such a write. */
static bool script_writes(const struct command *c, enum script script)
{
	size_t n = (size_t)number(c->words[2]);

	if (script == SEIZE) {
		const struct key *k = find_key(c->words[3]);

		return !k->value || is_same(c->words[4], k->value, k->value_len);
	}
	for (size_t i = 0; script == RENEW && i < n; i++) {
		const struct key *k = find_key(c->words[3 + i]);

		if (is_same(c->words[3 + n + i], k->value, k->value_len))
			return true;
	}
	return script != RENEW;
}

/* At maxmemory, commands that only free memory are still allowed, and scripts that declare this or have freed memory
 * before. */
static bool is_allowed_when_full(enum script script)
{
	return script == RELEASE || script == RENEW || script == PRESENCE || script == LEASE || script == INHERIT;
}

/* The error for the command, without the minus sign; NULL if none. */
static const char *refusal_of(const struct command *c)
{
	bool is_script = is_word(c, 0, "EVAL");
	enum script script = is_script ? script_of(c) : NO_SCRIPT;

	if (sim_now() < redis.refusal_until) {
		if (redis.is_loading)
			return redis.refusal;
		if (is_write(c) && (!redis.is_full || !is_allowed_when_full(script)) &&
		    (!is_script || script_writes(c, script)))
			return redis.refusal;
	}
	if (sim_now() < redis.odd_until && !is_word(c, 0, "INFO") && sim_chance(redis.odd))
		return sim_chance(500) ? "ERR an odd error"
				       : "WRONGTYPE Operation against a key holding the wrong kind of value";
	return NULL;
}

static void run(const struct command *c, struct answer *a)
{
	const char *refusal = refusal_of(c), *name = name_of(c);

	if (refusal) {
		char word[24];

		snprintf(word, sizeof(word), "%.*s", (int)strcspn(refusal, " "), refusal);
		sim_reached(sim_known(name), sim_known(word));
		add_text(a, "-");
		add_text(a, refusal);
		add_text(a, "\r\n");
		return;
	}
	sim_reached(name, "done");
	sim_cost(name, 1);
	if (is_word(c, 0, "SET"))
		run_set(c, a);
	else if (is_word(c, 0, "INFO"))
		run_info(a);
	else if (is_word(c, 0, "CLIENT"))
		run_client(c, a);
	else if (is_word(c, 0, "PUBLISH"))
		run_publish(c, a);
	else if (is_word(c, 0, "SUBSCRIBE"))
		run_subscribe(c, a);
	else if (is_word(c, 0, "PING"))
		run_ping(a);
	else
		run_script(c, script_of(c), a);
}

/* Reads the command at *at. Returns false if it is incomplete. */
static bool read_command(const char **at, const char *end, struct command *c)
{
	const char *p = *at;

	if (p >= end)
		return false;
	if (*p != '*')
		process_fail("not a command of RESP: %.20s", p);
	c->count = strtoul(p + 1, (char **)&p, 10);
	p += 2;
	if (c->count > WORDS)
		abort();
	for (size_t i = 0; i < c->count; i++) {
		c->words[i].len = strtoul(p + 1, (char **)&p, 10);
		c->words[i].at = p + 2;
		p = c->words[i].at + c->words[i].len + 2;
	}
	*at = p;
	return true;
}

/* --- transport --- */

struct packet {
	struct connection *connection;
	char *bytes;
	size_t len;
};

static void on_answer(void *arg)
{
	const struct packet *p = arg;
	struct connection *c = p->connection;

	if (c->in_len + p->len > c->in_size) {
		char *more = sim_alloc(c->in_size = 2 * (c->in_len + p->len));

		if (c->in_len)
			memcpy(more, c->in, c->in_len);
		c->in = more;
	}
	memcpy(c->in + c->in_len, p->bytes, p->len);
	c->in_len += p->len;
	sim_fd_set(c->context.fd, SIM_READABLE);
}

static void send_bytes(struct connection *c, const char *bytes, size_t len, bool to_server, void (*fn)(void *arg))
{
	struct packet *p = sim_alloc(sizeof(*p));

	*p = (struct packet){c, sim_copy(bytes, len), len};
	sim_fd_later(c->context.fd, to_server, fn, p);
}

/* The client sees the end of the connection. */
static void on_end(void *arg)
{
	struct connection *c = arg;

	c->is_closed = true;
	if (sim_fd_is_open(c->context.fd))
		sim_fd_set(c->context.fd, SIM_READABLE | SIM_WRITABLE);
}

/* A subscriber that lags is cut off by the server, now and then, and then misses messages. */
static void run_publish(const struct command *c, struct answer *a)
{
	struct answer message = {0};
	long long heard = 0;

	add_number(&message, '*', 3);
	add_value(&message, "message", 7);
	add_value(&message, c->words[1].at, c->words[1].len);
	add_value(&message, c->words[2].at, c->words[2].len);
	for (int i = 0; i < redis.connection_count; i++) {
		struct connection *to = redis.connections[i];

		if (!to->is_subscriber || to->is_closed || to->is_lost)
			continue;
		if (sim_now() < redis.deaf_until && sim_chance(200)) {
			sim_reached("subscriber", "cut off");
			on_end(to);
			continue;
		}
		send_bytes(to, message.bytes, message.len, false, on_answer);
		heard++;
	}
	add_number(a, ':', heard);
}

static void run_commands(void *arg)
{
	static struct command command;
	struct packet *p = arg;
	const char *at = p->bytes;
	struct answer a = {0};
	size_t cut;

	if (p->connection->is_closed || p->connection->is_lost)
		return;
	command.process = p->connection->process;
	command.connection = p->connection->number;
	while (read_command(&at, p->bytes + p->len, &command))
		run(&command, &a);
	if (!a.len)
		return;
	cut = sim_chance(100) ? sim_below(a.len) : 0;
	if (cut)
		send_bytes(p->connection, a.bytes, cut, false, on_answer);
	send_bytes(p->connection, a.bytes + cut, a.len - cut, false, on_answer);
}

static int64_t latest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void on_commands(void *arg)
{
	const struct packet *p = arg;
	struct connection *c = p->connection;
	int64_t at = latest(sim_now(), latest(redis.stalled_until, c->busy_until));

	if (sim_now() < redis.slow_until)
		at += sim_between(1, 300000);
	if (at == sim_now()) {
		run_commands(arg);
		return;
	}
	c->busy_until = at + 1;
	sim_at(at - sim_now(), run_commands, arg);
}

static void on_gone(void *arg, bool is_killed)
{
	struct connection *c = arg;

	if (!is_killed)
		on_end(c);
	c->is_closed = true;
}

static void end_connections(void)
{
	for (int i = 0; i < redis.connection_count; i++)
		if (!redis.connections[i]->is_closed)
			on_end(redis.connections[i]);
}

/* --- hiredis --- */

static void on_connected(void *arg)
{
	struct connection *c = arg;

	c->is_up = true;
	c->is_refused = sim_now() < redis.down_until;
	sim_fd_set(c->context.fd, SIM_WRITABLE);
}

static void on_dialled(void *arg)
{
	struct connection *c = arg;

	sim_fd_later(c->context.fd, false, on_connected, c);
}

static void on_refused(void *arg)
{
	struct connection *c = arg;

	c->is_refused = true;
	if (sim_fd_is_open(c->context.fd))
		sim_fd_set(c->context.fd, SIM_WRITABLE);
}

redisContext *redisConnectUnixNonBlock(const char *path)
{
	struct connection *c = sim_alloc(sizeof(*c));

	(void)path;
	c->process = sim_self();
	c->context.reader = redisReaderCreate();
	c->context.fd = sim_fd_open(SIM_REDIS, on_gone, c);
	if (redis.connection_count == CONNECTIONS)
		process_fail("more than %d connections to Redis", CONNECTIONS);
	redis.connections[redis.connection_count++] = c;
	c->number = redis.connection_count;
	if (sim_link(sim_self(), SIM_REDIS) == SIM_LINK_CUT)
		sim_at(sim_between(20, 200), on_refused, c);
	else
		sim_fd_later(c->context.fd, true, on_dialled, c);
	return &c->context;
}

redisContext *redisConnectNonBlock(const char *ip, int port)
{
	(void)ip, (void)port;
	abort();
}

static struct connection *connection_of_fd(int fd)
{
	for (int i = redis.connection_count - 1; i >= 0; i--)
		if (redis.connections[i]->context.fd == fd)
			return redis.connections[i];
	abort();
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	struct connection *c = connection_of_fd(fd);

	(void)level, (void)name, (void)size;
	*(int *)value = c->is_refused || c->is_closed ? ECONNREFUSED : 0;
	return 0;
}

int redisAppendFormattedCommand(redisContext *context, const char *bytes, size_t len)
{
	struct connection *c = (struct connection *)context;

	if (c->out_len + len > c->out_size) {
		char *more = sim_alloc(c->out_size = 2 * (c->out_len + len) + 1024);

		if (c->out_len)
			memcpy(more, c->out, c->out_len);
		c->out = more;
	}
	memcpy(c->out + c->out_len, bytes, len);
	c->out_len += len;
	return REDIS_OK;
}

int redisBufferWrite(redisContext *context, int *done)
{
	struct connection *c = (struct connection *)context;

	*done = 1;
	if (c->is_closed) {
		context->err = REDIS_ERR_IO;
		snprintf(context->errstr, sizeof(context->errstr), "Broken pipe");
		return REDIS_ERR;
	}
	if (c->out_len)
		send_bytes(c, c->out, c->out_len, true, on_commands);
	c->out_len = 0;
	return REDIS_OK;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
	struct connection *c = connection_of_fd(fd);
	size_t n = c->in_len < size ? c->in_len : size;

	(void)flags;
	if (!n && c->is_closed)
		return 0;
	if (!n) {
		sim_fd_clear(fd, SIM_READABLE);
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, c->in, n);
	memmove(c->in, c->in + n, c->in_len - n);
	c->in_len -= n;
	if (!c->in_len && !c->is_closed)
		sim_fd_clear(fd, SIM_READABLE);
	return (ssize_t)n;
}

ssize_t __wrap___recv_chk(int fd, void *bytes, size_t size, size_t room, int flags)
{
	(void)room;
	return __wrap_recv(fd, bytes, size, flags);
}

void redisFree(redisContext *context)
{
	struct connection *c = (struct connection *)context;

	if (context->reader)
		redisReaderFree(context->reader);
	context->reader = NULL;
	if (sim_fd_is_open(context->fd)) {
		sim_fd_later(context->fd, true, on_end, c);
		sim_fd_close(context->fd);
	}
}

void redis_sim_end(void)
{
	for (int i = 0; i < redis.connection_count; i++)
		if (redis.connections[i]->context.reader) {
			redisReaderFree(redis.connections[i]->context.reader);
			redis.connections[i]->context.reader = NULL;
		}
	redis.connection_count = 0;
}

/* --- faults --- */

static void refuse(const char *what, bool is_loading, bool is_full, int64_t lasts_us)
{
	sim_log(SIM_NOBODY, "redis answers %.40s for %.1f s", what, (double)lasts_us / 1e6);
	redis.refusal = what;
	redis.is_loading = is_loading;
	redis.is_full = is_full;
	redis.refusal_until = sim_now() + lasts_us;
}

static void begin_full(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	refuse("OOM command not allowed when used memory > 'maxmemory'.", false, true, lasts_us);
}

static void begin_readonly(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	refuse("READONLY You can't write against a read only replica.", false, false, lasts_us);
}

static void begin_misconf(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	refuse("MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to disk.",
	       false, false, lasts_us);
}

static void begin_loading(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	refuse("LOADING Redis is loading the dataset in memory", true, false, lasts_us);
}

static void begin_odd(uint64_t draw, int64_t lasts_us)
{
	redis.odd = 50 + (int)sim_dice(&draw, 400);
	redis.odd_until = sim_now() + lasts_us;
	sim_log(SIM_NOBODY, "redis answers %d of 1000 commands with an odd error for %.1f s", redis.odd,
		(double)lasts_us / 1e6);
}

static void flush(void)
{
	for (size_t i = 0; i < redis.count; i++)
		redis.keys[i].value = NULL;
	redis.members = 0;
}

static void begin_flush(uint64_t draw, int64_t lasts_us)
{
	(void)draw, (void)lasts_us;
	sim_log(SIM_NOBODY, "redis: FLUSHALL");
	flush();
}

static void begin_eviction(uint64_t draw, int64_t lasts_us)
{
	int evicted = 0;

	(void)lasts_us;
	for (size_t i = 0; i < redis.count; i++)
		if (redis.keys[i].value && sim_dice(&draw, 3) == 0) {
			redis.keys[i].value = NULL;
			evicted++;
		}
	sim_log(SIM_NOBODY, "redis evicts %d keys", evicted);
}

static void begin_stall(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	sim_log(SIM_NOBODY, "redis stands still for %.1f s", (double)lasts_us / 1e6);
	redis.stalled_until = sim_now() + lasts_us;
}

static void begin_kill(uint64_t draw, int64_t lasts_us)
{
	sim_log(SIM_NOBODY, "redis is killed, and back after %.1f s", (double)lasts_us / 1e6);
	end_connections();
	redis.down_until = sim_now() + lasts_us;
	if (sim_dice(&draw, 2))
		flush();
}

static void forget_writes(int64_t since)
{
	for (; redis.writes && redis.writes->at > since; redis.writes = redis.writes->before)
		redis.keys[redis.writes->key] = redis.writes->old;
}

/* A replica takes over. Replication is asynchronous, so the last writes are lost. */
static void begin_promotion(uint64_t draw, int64_t lasts_us)
{
	int64_t lag = (int64_t)sim_dice(&draw, 2000000);

	sim_log(SIM_NOBODY, "redis: a replica is promoted, which lacks the last %.3f s", (double)lag / 1e6);
	forget_writes(sim_now() - lag);
	end_connections();
	redis.down_until = sim_now() + lasts_us / 10;
}

static void begin_deaf(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	sim_log(SIM_NOBODY, "redis cuts subscribers off for %.1f s", (double)lasts_us / 1e6);
	redis.deaf_until = sim_now() + lasts_us;
}

static void begin_slow(uint64_t draw, int64_t lasts_us)
{
	(void)draw;
	sim_log(SIM_NOBODY, "redis is slow for %.1f s", (double)lasts_us / 1e6);
	redis.slow_until = sim_now() + lasts_us;
}

/* The machine is replaced: with appendfsync everysec, or without a disk. */
static void begin_machine(uint64_t draw, int64_t lasts_us)
{
	int64_t lag = (int64_t)sim_dice(&draw, 1000000);
	bool is_empty = sim_dice(&draw, 2);

	sim_log(SIM_NOBODY, "redis: its machine is gone, another one has %s after %.1f s",
		is_empty ? "nothing" : "what was on the disk", (double)lasts_us / 1e6);
	for (int i = 0; i < redis.connection_count; i++)
		redis.connections[i]->is_lost = true;
	redis.down_until = sim_now() + lasts_us;
	if (is_empty)
		flush();
	else
		forget_writes(sim_now() - lag);
}

const struct sim_fault sim_redis_machine = {"redis: its machine is gone", 10, begin_machine, false};

const struct sim_fault sim_redis_faults[] = {
	{"redis: memory is full", 10, begin_full, false},
	{"redis: read-only", 10, begin_readonly, false},
	{"redis: cannot persist", 5, begin_misconf, false},
	{"redis: loading", 5, begin_loading, false},
	{"redis: odd errors", 10, begin_odd, false},
	{"redis: flushed", 10, begin_flush, false},
	{"redis: keys evicted", 10, begin_eviction, false},
	{"redis: stands still", 10, begin_stall, false},
	{"redis: slow", 5, begin_slow, false},
	{"redis: subscribers cut off", 10, begin_deaf, false},
	{"redis: killed", 10, begin_kill, false},
	{"redis: replica promoted", 10, begin_promotion, false},
	{NULL, 0, NULL, false},
};

void sim_redis_calm(void)
{
	redis.refusal_until = redis.stalled_until = redis.down_until = redis.slow_until = redis.odd_until =
		redis.deaf_until = sim_now();
}

void sim_redis_start(void)
{
	memset(&redis, 0, sizeof(redis));
}
