/* hold.c keeps events that wait and says which are due. claiming.c decides what happens to them. */
#include "event/hold.h"

void hold_init(struct hold *h)
{
	for (int i = 0; i < HOLD_STEPS; i++)
		list_init(&h->queues[i]);
}

void hold_add(struct hold *h, struct event *ev, int64_t now_ms, unsigned int step)
{
	if (step >= HOLD_STEPS)
		step = HOLD_STEPS - 1;
	ev->due_ms = now_ms + ((int64_t)HOLD_FIRST_MS << step);
	list_append(&h->queues[step], &ev->wait_link);
}

void hold_remove(struct event *ev)
{
	list_remove(&ev->wait_link);
}

static struct event *head(const struct list *queue)
{
	return list_is_empty(queue) ? NULL : list_entry(queue->next, struct event, wait_link);
}

struct event *hold_due(struct hold *h, int64_t now_ms)
{
	for (int i = 0; i < HOLD_STEPS; i++) {
		struct event *ev = head(&h->queues[i]);

		if (ev && ev->due_ms <= now_ms) {
			hold_remove(ev);
			return ev;
		}
	}
	return NULL;
}

int64_t hold_wait(const struct hold *h, int64_t now_ms)
{
	int64_t soonest = -1;

	for (int i = 0; i < HOLD_STEPS; i++) {
		const struct event *ev = head(&h->queues[i]);
		int64_t wait = ev ? ev->due_ms - now_ms : -1;

		if (!ev)
			continue;
		if (wait <= 0)
			return 0;
		if (soonest < 0 || wait < soonest)
			soonest = wait;
	}
	return soonest;
}
