/* order.h: whose turn it is among events with the same key (--order-pointer). No I/O. */
#ifndef WSONCE_ORDER_H
#define WSONCE_ORDER_H

#include "event/event.h"

struct order_key;

struct order {
	struct order_key *keys; /* keys of the events in flight */
	struct list due;        /* events whose turn has come, linked by wait_link */
};

void order_init(struct order *o);
void order_free(struct order *o);

/* Gives ev this key. An event with an empty key waits for no other. */
void order_set_key(struct order *o, struct event *ev, struct slice text);

/* Returns true if it is the turn of ev, which has a key. Otherwise queues ev, by its wait_link, behind the earlier
 * events of its key. */
bool order_begin(struct event *ev);

/* Gives the turn of ev, if it has a key, to another message with its id. */
void order_pass(struct event *ev, struct event *next);

/* Call when ev, which has a key, has settled. Its successor becomes due. */
void order_end(struct order *o, struct event *ev);

#endif
