/* sentinel.c asks where the master is, over one connection to one sentinel. It polls, because a subscription can be
 * lost without notice and a frozen master looks like a slow one. If a sentinel does not answer in time, it asks the
 * next. While there is no master, each request goes to the next sentinel, because they learn of a failover one after
 * the other; the epoch tells which answer is newest. server.c acts on the answers. */
#include "redis/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/memory.h"
#include "redis/talk.h"

#define TIMEOUT_MS 300 /* timeout for one sentinel */
#define TICK_MS    100
#define CALM_TICKS 5
#define LOST_TICKS 50 /* ticks without a master until the epoch is reset: the sentinel with the newest may be gone */

struct sentinel {
	const struct redis_address *address;
	struct talk *talk;
	uv_timer_t timer;
	size_t turn;        /* index of the current sentinel */
	size_t failed;      /* sentinels that failed in a row */
	unsigned int ticks; /* since the last request */
	unsigned int urgent_ticks;
	long long epoch;      /* config-epoch of the master that was named last */
	long long epoch_here; /* config-epoch that the current sentinel knows */
	bool is_urgent;
	bool is_connected;
	bool is_asking;
	bool is_closing;
	sentinel_named_cb *on_named;
	sentinel_failed_cb *on_failed;
	void *owner;
	struct ending ending;
};

static const struct url *url_of(const struct sentinel *s)
{
	return &s->address->urls[s->turn];
}

static bool is_text(const struct redis_reply *reply)
{
	return reply->type == REPLY_STRING;
}

/* The reply alternates names and values. */
static void on_master(void *asker, void *arg, const struct redis_reply *reply)
{
	struct sentinel *s = arg;

	(void)asker;
	s->epoch_here = 0;
	for (size_t i = 0; reply && reply->type == REPLY_ARRAY && i + 1 < reply->elements; i += 2)
		if (is_text(&reply->element[i]) && is_text(&reply->element[i + 1]) &&
		    strcmp(reply->element[i].str, "config-epoch") == 0)
			s->epoch_here = strtoll(reply->element[i + 1].str, NULL, 10);
}

static void take_name(struct sentinel *s, const char *host, int port)
{
	if (s->epoch_here >= s->epoch) {
		s->epoch = s->epoch_here;
		s->on_named(s->owner, host, port);
	}
	if (s->is_urgent || s->epoch_here < s->epoch)
		talk_end(s->talk, NULL);
}

static void on_answer(void *asker, void *arg, const struct redis_reply *reply)
{
	struct sentinel *s = arg;
	char why[600];

	(void)asker;
	s->is_asking = false;
	if (!reply)
		return;
	if (reply->type == REPLY_ARRAY && reply->elements == 2 && is_text(&reply->element[0]) &&
	    is_text(&reply->element[1])) {
		s->failed = 0;
		take_name(s, reply->element[0].str, (int)strtol(reply->element[1].str, NULL, 10));
		return;
	}
	snprintf(why, sizeof(why), "it does not know a master %.200s: %.300s", s->address->master,
		 reply->type == REPLY_ERROR ? reply->str : "no such name");
	talk_end(s->talk, why);
}

static void ask(struct sentinel *s)
{
	TALK_SAY(s->talk, on_master, s, "SENTINEL", "MASTER", s->address->master);
	s->is_asking = TALK_SAY(s->talk, on_answer, s, "SENTINEL", "get-master-addr-by-name", s->address->master) == 0;
	s->ticks = 0;
}

/* A sentinel without a password refuses AUTH, but answers the question. One with another password does not. */
static void on_open(void *owner)
{
	struct sentinel *s = owner;

	talk_log_in(s->talk, url_of(s), NULL, NULL);
	ask(s);
}

/* Moves on to the next sentinel, which the next tick asks. */
static void on_end(void *owner, const char *why)
{
	struct sentinel *s = owner;
	char text[800];

	s->is_connected = false;
	if (s->is_closing)
		return;
	if (!why) { /* ended on purpose: the next one's answer may be newer */
		s->turn = (s->turn + 1) % s->address->count;
		return;
	}
	snprintf(text, sizeof(text), "sentinel %.200s:%d: %.500s", url_of(s)->host,
		 redis_address_port(s->address, s->turn), why);
	s->turn = (s->turn + 1) % s->address->count;
	s->failed++;
	if (s->failed % s->address->count == 0)
		s->on_failed(s->owner, text);
}

static void on_tick(uv_timer_t *timer)
{
	struct sentinel *s = timer->data;

	s->ticks++;
	s->urgent_ticks = s->is_urgent ? s->urgent_ticks + 1 : 0;
	if (s->urgent_ticks > LOST_TICKS)
		s->epoch = 0;
	if (!s->is_connected) {
		s->is_connected = true;
		talk_connect(s->talk, url_of(s)->host, redis_address_port(s->address, s->turn),
			     (unsigned int)(s->failed / s->address->count), NULL);
	} else if (!s->is_asking && (s->is_urgent || s->ticks >= CALM_TICKS)) {
		ask(s);
	}
}

void sentinel_hurry(struct sentinel *s, bool is_urgent)
{
	s->is_urgent = is_urgent;
}

struct sentinel *sentinel_open(uv_loop_t *loop, const struct redis_address *address, const struct tls_trust *trust,
			       sentinel_named_cb *on_named, sentinel_failed_cb *on_failed, void *owner)
{
	struct sentinel *s = memory_calloc(1, sizeof(*s));
	const struct talk_settings settings = {.trust = trust,
					       .timeout_ms = TIMEOUT_MS,
					       .password = address->urls[0].password,
					       .on_open = on_open,
					       .on_end = on_end,
					       .owner = s};

	s->address = address;
	s->on_named = on_named;
	s->on_failed = on_failed;
	s->owner = owner;
	s->talk = talk_new(loop, &settings);
	s->is_urgent = true;
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	uv_timer_start(&s->timer, on_tick, 0, TICK_MS);
	return s;
}

void sentinel_close(struct sentinel *s, void (*done)(void *arg), void *arg)
{
	s->is_closing = true;
	ending_begin(&s->ending, 2, free, s, done, arg);
	talk_free(s->talk, ending_part, &s->ending);
	ending_close(&s->ending, &s->timer);
}
