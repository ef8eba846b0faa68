/* order.h: whose turn it is among events with the same key (--order-pointer). No I/O. */
#ifndef WSONCE_ORDER_H
#define WSONCE_ORDER_H

#include "event/event.h"

struct order_key;

struct order {
	struct order_key *keys; /* those of the events in flight */
	struct list due;        /* events whose turn has come, by their wait_link */
};

void order_init(struct order *o);
void order_free(struct order *o);

/* Gives ev the key of this text; an empty one means that it need not wait. */
void order_set_key(struct order *o, struct event *ev, struct slice text);

/* Is it the turn of ev, which has a key? If not, ev waits by its wait_link behind those that came before. */
bool order_begin(struct event *ev);

/* ev, which has a key, has settled. The one behind it is due. */
void order_end(struct order *o, struct event *ev);

#endif
