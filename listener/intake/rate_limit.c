/* rate_limit.c owns a token bucket and the queue of messages that wait for it. */
#include "intake/rate_limit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct rate_limit_message {
	struct rate_limit_message *next;
	size_t len;
	char text[];
};

void rate_limit_init(struct rate_limit *c, double rate_per_s, int64_t now_ms)
{
	*c = (struct rate_limit){.rate = rate_per_s, .at_ms = now_ms};
	c->allowed = rate_per_s > 1 ? rate_per_s : rate_per_s > 0 ? 1 : RATE_LIMIT_REPLIES;
	c->last = &c->first;
}

static void drop_first(struct rate_limit *c)
{
	struct rate_limit_message *m = c->first;

	c->first = m->next;
	if (!c->first)
		c->last = &c->first;
	c->waiting--;
	free(m);
}

void rate_limit_clear(struct rate_limit *c)
{
	while (c->first)
		drop_first(c);
}

/* Fills the bucket, which holds at most the messages of one second. True if a message may be sent. */
static bool may_send(struct rate_limit *c, int64_t now_ms)
{
	double rate = c->rate > 0 ? c->rate : RATE_LIMIT_REPLIES, most = rate > 1 ? rate : 1;

	c->allowed += (double)(now_ms - c->at_ms) / 1000 * rate;
	c->at_ms = now_ms;
	if (c->allowed > most)
		c->allowed = most;
	if (c->allowed < 1)
		return false;
	c->allowed -= 1;
	return true;
}

static void keep(struct rate_limit *c, const char *text, size_t len)
{
	struct rate_limit_message *m = memory_alloc(sizeof(*m) + len);

	m->next = NULL;
	m->len = len;
	memcpy(m->text, text, len);
	*c->last = m;
	c->last = &m->next;
	c->waiting++;
}

int rate_limit_send(struct rate_limit *c, const char *text, size_t len, enum rate_limit_kind kind, int64_t now_ms,
		    rate_limit_cb *send, void *arg)
{
	bool is_free = c->rate <= 0 && kind != RATE_LIMIT_REPLY;

	if (is_free || (!c->first && may_send(c, now_ms))) {
		send(arg, text, len);
		return 0;
	}
	if (c->waiting >= RATE_LIMIT_WAITING)
		return -1;
	keep(c, text, len);
	return 0;
}

void rate_limit_resume(struct rate_limit *c, int64_t now_ms, rate_limit_cb *send, void *arg)
{
	while (c->first && may_send(c, now_ms)) {
		send(arg, c->first->text, c->first->len);
		drop_first(c);
	}
}
