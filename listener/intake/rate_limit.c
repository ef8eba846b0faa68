/* rate_limit.c owns the times of the last messages, and the queue of those that wait. */
#include "intake/rate_limit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MOST      1000 /* messages whose times are kept */
#define JITTER_MS 100  /* by which messages may come closer together than they were sent */

struct message {
	struct list link;
	size_t len;
	enum rate_limit_queue queue;
	char text[];
};

void rate_limit_init(struct rate_limit *c, double rate_per_s)
{
	double rate = rate_per_s > 0 ? rate_per_s : RATE_LIMIT_REPLIES;

	*c = (struct rate_limit){.is_for_all = rate_per_s > 0};
	c->most = rate < 1 ? 1 : rate > MOST ? MOST : (size_t)rate;
	c->window_ms = JITTER_MS + (int64_t)(rate < 2 || rate > MOST ? (double)c->most * 1000 / rate : 1000);
	c->sent_ms = memory_calloc(c->most, sizeof(*c->sent_ms));
	for (size_t i = 0; i < c->most; i++)
		c->sent_ms[i] = -c->window_ms;
	for (size_t i = 0; i < RATE_LIMIT_QUEUES; i++)
		list_init(&c->queues[i]);
}

static struct message *first(const struct rate_limit *c)
{
	size_t i = 0;

	while (i < RATE_LIMIT_QUEUES && list_is_empty(&c->queues[i]))
		i++;
	return i == RATE_LIMIT_QUEUES ? NULL : list_entry(c->queues[i].next, struct message, link);
}

static void drop(struct rate_limit *c, struct message *m)
{
	list_remove(&m->link);
	c->waiting[m->queue]--;
	c->bytes -= m->len;
	free(m);
}

void rate_limit_clear(struct rate_limit *c)
{
	for (struct message *m; (m = first(c));)
		drop(c, m);
	free(c->sent_ms);
}

/* True if a message may be sent: as many messages ago as the window holds was longer ago than the window. A bucket that
 * fills while it is emptied would let twice as many into a second, and the feed may end the connection. */
static bool may_send(struct rate_limit *c, int64_t now_ms)
{
	if (now_ms - c->sent_ms[c->at] < c->window_ms)
		return false;
	c->sent_ms[c->at] = now_ms;
	c->at = (c->at + 1) % c->most;
	return true;
}

static void keep(struct rate_limit *c, const char *text, size_t len, enum rate_limit_queue queue)
{
	struct message *m = memory_alloc(sizeof(*m) + len);

	m->len = len;
	m->queue = queue;
	memcpy(m->text, text, len);
	list_append(&c->queues[queue], &m->link);
	c->waiting[queue]++;
	c->bytes += len;
}

int rate_limit_send(struct rate_limit *c, const char *text, size_t len, enum rate_limit_kind kind, int64_t now_ms,
		    rate_limit_cb *send, void *arg)
{
	bool is_free = !c->is_for_all && kind != RATE_LIMIT_REPLY;
	enum rate_limit_queue queue = kind > RATE_LIMIT_OWN   ? RATE_LIMIT_ACKS
				      : kind < RATE_LIMIT_OWN ? RATE_LIMIT_REPLIES_AND_PINGS
							      : RATE_LIMIT_OWNS;

	while (kind == RATE_LIMIT_LAST_ACK && c->waiting[queue])
		drop(c, list_entry(c->queues[queue].next, struct message, link));
	if (is_free || (!first(c) && may_send(c, now_ms))) {
		send(arg, text, len);
		return 0;
	}
	if ((kind < RATE_LIMIT_OWN && c->waiting[queue] >= RATE_LIMIT_WAITING) || c->bytes > RATE_LIMIT_BYTES)
		return -1;
	keep(c, text, len, queue);
	return 0;
}

void rate_limit_resume(struct rate_limit *c, int64_t now_ms, rate_limit_cb *send, void *arg)
{
	for (struct message *m; (m = first(c)) && may_send(c, now_ms); drop(c, m))
		send(arg, m->text, m->len);
}
