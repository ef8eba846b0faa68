/* rate_limit.c owns a token bucket and the queue of messages that wait for it. */
#include "intake/rate_limit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct message {
	struct list link;
	size_t len;
	bool is_ack;
	char text[];
};

void rate_limit_init(struct rate_limit *c, double rate_per_s, int64_t now_ms)
{
	*c = (struct rate_limit){.rate = rate_per_s, .at_ms = now_ms};
	c->allowed = rate_per_s > 1 ? rate_per_s : rate_per_s > 0 ? 1 : RATE_LIMIT_REPLIES;
	list_init(&c->queue);
	list_init(&c->ack_queue);
}

static struct message *first(const struct rate_limit *c)
{
	const struct list *queue = list_is_empty(&c->queue) ? &c->ack_queue : &c->queue;

	return list_is_empty(queue) ? NULL : list_entry(queue->next, struct message, link);
}

static void drop(struct rate_limit *c, struct message *m)
{
	list_remove(&m->link);
	c->acks -= m->is_ack;
	c->waiting -= !m->is_ack;
	c->bytes -= m->len;
	free(m);
}

void rate_limit_clear(struct rate_limit *c)
{
	for (struct message *m; (m = first(c));)
		drop(c, m);
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

static void keep(struct rate_limit *c, const char *text, size_t len, bool is_ack)
{
	struct message *m = memory_alloc(sizeof(*m) + len);

	m->len = len;
	m->is_ack = is_ack;
	memcpy(m->text, text, len);
	list_append(is_ack ? &c->ack_queue : &c->queue, &m->link);
	c->acks += is_ack;
	c->waiting += !is_ack;
	c->bytes += len;
}

int rate_limit_send(struct rate_limit *c, const char *text, size_t len, enum rate_limit_kind kind, int64_t now_ms,
		    rate_limit_cb *send, void *arg)
{
	bool is_free = c->rate <= 0 && kind != RATE_LIMIT_REPLY, is_last = kind == RATE_LIMIT_LAST_ACK;
	bool is_ack = kind == RATE_LIMIT_ACK || is_last;

	while (is_last && c->acks)
		drop(c, list_entry(c->ack_queue.next, struct message, link));
	if (is_free || (!first(c) && may_send(c, now_ms))) {
		send(arg, text, len);
		return 0;
	}
	if ((!is_ack && c->waiting >= RATE_LIMIT_WAITING) || c->bytes > RATE_LIMIT_BYTES)
		return -1;
	keep(c, text, len, is_ack);
	return 0;
}

void rate_limit_resume(struct rate_limit *c, int64_t now_ms, rate_limit_cb *send, void *arg)
{
	for (struct message *m; (m = first(c)) && may_send(c, now_ms); drop(c, m))
		send(arg, m->text, m->len);
}
