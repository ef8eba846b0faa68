/* talk.c runs one connection: it looks up the address, matches answers to commands, and notices when the server hangs.
 * server.c and sentinel.c decide what to send and when to reconnect. wire.c moves the bytes. */
#include "redis/talk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/memory.h"
#include "base/fault_point.h"
#include "base/resolve.h"
#include "base/secret.h"
#include "redis/resp.h"
#include "redis/wire.h"

#define FIRST_REQUESTS 1024

/* The callback for an answer. */
struct request {
	redis_cb *cb;
	void *arg;
};

struct talk {
	uv_loop_t *loop;
	struct talk_settings settings;
	const char *host; /* the owner's memory */
	int port;
	bool is_begun; /* talk_connect was called, and the connection has not ended */
	bool is_open;
	struct resolve *resolve;
	struct wire *wire; /* NULL before the address is known */
	uv_timer_t watchdog;
	uv_prepare_t flush; /* sends this turn's commands before the loop waits for I/O */
	char why[120];      /* why connecting could not begin, for the watchdog to report; else "" */
	/* Redis answers in order, so the callbacks wait in a ring. */
	struct request *requests;
	size_t request_mask; /* size of the ring, a power of two, less one */
	uint64_t sent;
	uint64_t answered;
	/* The deadline: command number mark was the newest one at mark_ms. If it has no answer within the timeout, the
	 * server hangs. One deadline at a time is cheap. */
	uint64_t mark;
	int64_t mark_ms;
	struct bytes in;      /* received bytes, beginning with the next answer */
	struct arena arrays;  /* of the last answer */
	struct bytes command; /* command of talk_say */
	struct ending ending;
};

static int64_t now_ms(const struct talk *s)
{
	return (int64_t)uv_now(s->loop);
}

/* --- asking --- */

/* Doubles the ring and moves open requests to their places by the new mask. */
static void grow_ring(struct talk *s)
{
	size_t size =
		s->requests ? 2 * (s->request_mask + 1) : FAULT_POINT_ONE("redis: the ring is small", FIRST_REQUESTS);
	struct request *more = memory_alloc(size * sizeof(*more));

	assert(s->requests || s->sent == s->answered);
	for (uint64_t i = s->answered; i < s->sent; i++)
		more[i & (size - 1)] = s->requests[i & s->request_mask];
	free(s->requests);
	s->requests = more;
	s->request_mask = size - 1;
}

int talk_ask(struct talk *s, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	if (!s->is_open)
		return -1;
	if (!s->requests || s->sent - s->answered > s->request_mask)
		grow_ring(s);
	wire_write(s->wire, bytes, len);
	s->requests[s->sent++ & s->request_mask] = (struct request){cb, arg};
	return 0;
}

int talk_say(struct talk *s, redis_cb *cb, void *arg, const char *const *words)
{
	size_t count = 0;

	while (words[count])
		count++;
	resp_start(&s->command, count);
	resp_add_words(&s->command, words);
	return talk_ask(s, s->command.at, s->command.len, cb, arg);
}

void talk_log_in(struct talk *s, const struct url *login, redis_cb *cb, void *arg)
{
	if (login->password && login->user && *login->user)
		TALK_SAY(s, cb, arg, "AUTH", login->user, login->password);
	else if (login->password)
		TALK_SAY(s, cb, arg, "AUTH", login->password);
}

uint64_t talk_unanswered(const struct talk *s)
{
	return s->sent - s->answered;
}

static void on_turn(uv_prepare_t *turn)
{
	struct talk *s = turn->data;

	if (s->is_open)
		wire_flush(s->wire);
}

/* --- the end --- */

static void answer(struct talk *s, const struct redis_reply *reply)
{
	struct request q = s->requests[s->answered++ & s->request_mask];

	if (q.cb)
		q.cb(s->settings.asker, q.arg, reply);
}

void talk_end(struct talk *s, const char *why)
{
	struct wire *wire = s->wire;

	if (!s->is_begun)
		return;
	s->is_begun = s->is_open = false;
	s->wire = NULL;
	if (s->resolve)
		resolve_cancel(s->resolve);
	s->resolve = NULL;
	uv_timer_stop(&s->watchdog);
	uv_prepare_stop(&s->flush);
	s->settings.on_end(s->settings.owner, why);
	if (wire)
		wire_close(wire);
	while (s->answered < s->sent) /* commands sent from the callbacks are refused */
		answer(s, NULL);
}

static void on_watchdog(uv_timer_t *timer)
{
	struct talk *s = timer->data;
	int64_t late_ms = now_ms(s) - s->mark_ms;

	if (*s->why) {
		talk_end(s, s->why);
	} else if (!s->is_open) {
		if (late_ms > s->settings.timeout_ms)
			talk_end(s, "no answer while connecting");
	} else if (s->answered >= s->mark) { /* the marked command was answered: mark the newest */
		s->mark = s->sent;
		s->mark_ms = now_ms(s);
	} else if (late_ms > s->settings.timeout_ms || FAULT_POINT("redis: an answer is late")) {
		talk_end(s, "no answer within the redis timeout");
	}
}

/* --- answers --- */

/* Masks the password, since errors are logged and a server that does not know AUTH repeats its arguments. */
static void tell_error(const struct talk *s, char *text)
{
	secret_mask(text, s->settings.password);
	if (s->settings.on_error)
		s->settings.on_error(s->settings.owner, text);
}

/* Messages of a channel come between the answers. Returns true if reply is one. */
static bool take_message(const struct talk *s, const struct redis_reply *reply)
{
	const struct redis_reply *text = reply->type == REPLY_ARRAY && reply->elements == 3 ? &reply->element[2] : NULL;

	if (!s->settings.on_message || !text || text->type != REPLY_STRING || reply->element[0].type != REPLY_STRING ||
	    strcmp(reply->element[0].str, "message") != 0)
		return false;
	s->settings.on_message(s->settings.asker, text->str, text->len);
	return true;
}

/* Returns false if the connection has ended, which a callback may do. */
static bool take_answer(struct talk *s, const struct redis_reply *reply)
{
	const struct wire *wire = s->wire;
	bool is_replica;

	if (take_message(s, reply))
		return s->wire == wire;
	if (s->answered == s->sent) {
		talk_end(s, "an answer without a command");
		return false;
	}
	if (reply->type == REPLY_ERROR)
		tell_error(s, reply->str);
	/* After a failover the name may belong to another server, which only a new connection finds. */
	is_replica = reply_is_error(reply, "READONLY");
	answer(s, reply);
	if (s->wire == wire && is_replica)
		talk_end(s, TALK_REPLICA);
	return s->wire == wire;
}

static bool on_bytes(void *arg, const char *bytes, size_t len)
{
	struct talk *s = arg;
	struct redis_reply reply;
	const char *why;
	char *at, *next;

	bytes_add(&s->in, bytes, len);
	for (at = s->in.at; (next = reply_read(&reply, at, s->in.len - (size_t)(at - s->in.at), &s->arrays, &why));
	     at = next)
		if (!take_answer(s, &reply))
			return false;
	s->in.len -= (size_t)(at - s->in.at);
	memmove(s->in.at, at, s->in.len);
	if (why)
		talk_end(s, why);
	return !why;
}

/* --- connecting --- */

static void on_open(void *arg)
{
	struct talk *s = arg;

	s->is_open = true;
	s->settings.on_open(s->settings.owner);
	s->mark = s->sent;
	s->mark_ms = now_ms(s);
}

static void on_fault(void *arg, const char *why)
{
	talk_end(arg, why);
}

static void open_wire(struct talk *s, const char *address, const char *path)
{
	const struct wire_callbacks callbacks = {on_open, on_bytes, on_fault, s};

	s->in.len = 0;
	s->wire = wire_open(s->loop, address, s->port, path, s->settings.trust, s->host, &callbacks, s->why,
			    sizeof(s->why));
	if (s->wire)
		uv_prepare_start(&s->flush, on_turn);
}

static void on_addresses(void *arg, const char *addresses, const char *error)
{
	struct talk *s = arg;
	char first[64];

	s->resolve = NULL;
	if (!addresses) {
		talk_end(s, error);
		return;
	}
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(addresses, " "), addresses);
	open_wire(s, first, NULL);
}

void talk_connect(struct talk *s, const char *host, int port, unsigned int nth, const char *path)
{
	uint64_t tick = (uint64_t)(s->settings.timeout_ms / 8 > 10 ? s->settings.timeout_ms / 8 : 10);

	assert(!s->is_begun);
	s->is_begun = true;
	s->host = host;
	s->port = port;
	s->why[0] = '\0';
	s->mark_ms = now_ms(s);
	uv_timer_start(&s->watchdog, on_watchdog, tick, tick);
	if (!host) {
		open_wire(s, NULL, path);
		return;
	}
	s->resolve = resolve_start(s->loop, host, nth, on_addresses, s);
	if (!s->resolve)
		snprintf(s->why, sizeof(s->why), "the name lookup could not start");
}

/* --- life --- */

struct talk *talk_new(uv_loop_t *loop, const struct talk_settings *settings)
{
	struct talk *s = memory_calloc(1, sizeof(*s));

	s->loop = loop;
	s->settings = *settings;
	uv_timer_init(loop, &s->watchdog);
	uv_prepare_init(loop, &s->flush);
	s->watchdog.data = s->flush.data = s;
	return s;
}

static void release(void *object)
{
	struct talk *s = object;

	arena_clear(&s->arrays);
	free(s->requests);
	bytes_free(&s->in);
	bytes_free(&s->command);
	free(s);
}

void talk_free(struct talk *s, void (*done)(void *arg), void *arg)
{
	talk_end(s, NULL);
	ending_begin(&s->ending, 2, release, s, done, arg);
	ending_close(&s->ending, &s->watchdog);
	ending_close(&s->ending, &s->flush);
}
