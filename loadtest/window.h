/* window.h: the messages of one connection that are not acked yet. No I/O; time is an argument. */
#ifndef WSONCE_WINDOW_H
#define WSONCE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "base/list.h"
#include "script.h"

/* A pending message. The window owns it until a function below returns it to the caller. */
struct sending {
	struct list link;  /* in one of the window's lists */
	UT_hash_handle hh; /* in window.by_key */
	uint64_t key;      /* number and kind in one */
	struct script_step step;
	int64_t planned_ns; /* when it was due; 0 without a timetable */
	int64_t first_ns;   /* when it was first sent; 0 if not yet */
	int64_t last_ns;    /* when it was last sent */
};

struct window {
	struct list unsent;         /* to be written, in this order */
	struct list sent_events;    /* oldest last_ns first */
	struct list sent_malformed; /* likewise; separate, because their acks name no id */
	struct sending *by_key;
	unsigned int count; /* in all three lists */
};

void window_init(struct window *w);

/* Adds a message. Returns -1 if out of memory. */
int window_add(struct window *w, const struct script_step *step, int64_t planned_ns);

bool window_has_unsent(const struct window *w);

/* Returns the next message to write and marks it as sent at now_ns; NULL if there is none. */
struct sending *window_send(struct window *w, int64_t now_ns);

/* Removes and returns m. The caller frees it. */
struct sending *window_take(struct window *w, struct sending *m);

/* Removes the message that an ack for event n settles: the event before its copy. NULL if there is
 * none. The caller frees it. */
struct sending *window_settle_event(struct window *w, uint64_t n);

/* Removes the oldest malformed message that was sent; NULL if there is none. The caller frees it. */
struct sending *window_settle_malformed(struct window *w);

/* Queues messages sent before this time to be sent again, before those not sent yet. Returns their
 * number. */
unsigned int window_retry(struct window *w, int64_t before_ns);

/* Moves all messages to another window. */
void window_move(struct window *from, struct window *to);

/* Frees all messages. */
void window_clear(struct window *w);

#endif
