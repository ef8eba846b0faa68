/* courtesy.c owns the arithmetic of sending slowly: a bucket that fills with time, and what waits for it, in order. */
#include "intake/courtesy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct courtesy_message {
	struct courtesy_message *next;
	size_t len;
	char text[];
};

void courtesy_init(struct courtesy *c, double rate_per_s, int64_t now_ms)
{
	*c = (struct courtesy){.rate = rate_per_s, .at_ms = now_ms};
	c->allowed = rate_per_s > 1 ? rate_per_s : rate_per_s > 0 ? 1 : COURTESY_REPLIES;
	c->last = &c->first;
}

static void drop_first(struct courtesy *c)
{
	struct courtesy_message *m = c->first;

	c->first = m->next;
	if (!c->first)
		c->last = &c->first;
	c->waiting--;
	free(m);
}

void courtesy_clear(struct courtesy *c)
{
	while (c->first)
		drop_first(c);
}

/* What is not used is lost, but for a second's worth. */
static bool may_send(struct courtesy *c, int64_t now_ms)
{
	double rate = c->rate > 0 ? c->rate : COURTESY_REPLIES, most = rate > 1 ? rate : 1;

	c->allowed += (double)(now_ms - c->at_ms) / 1000 * rate;
	c->at_ms = now_ms;
	if (c->allowed > most)
		c->allowed = most;
	if (c->allowed < 1)
		return false;
	c->allowed -= 1;
	return true;
}

static void keep(struct courtesy *c, const char *text, size_t len)
{
	struct courtesy_message *m = memory_alloc(sizeof(*m) + len);

	m->next = NULL;
	m->len = len;
	memcpy(m->text, text, len);
	*c->last = m;
	c->last = &m->next;
	c->waiting++;
}

int courtesy_say(struct courtesy *c, const char *text, size_t len, enum courtesy_kind kind, int64_t now_ms,
		 courtesy_cb *send, void *arg)
{
	bool is_free = c->rate <= 0 && kind != COURTESY_REPLY;

	if (is_free || (!c->first && may_send(c, now_ms))) {
		send(arg, text, len);
		return 0;
	}
	if (c->waiting >= COURTESY_WAITING)
		return -1;
	keep(c, text, len);
	return 0;
}

void courtesy_go_on(struct courtesy *c, int64_t now_ms, courtesy_cb *send, void *arg)
{
	while (c->first && may_send(c, now_ms)) {
		send(arg, c->first->text, c->first->len);
		drop_first(c);
	}
}
