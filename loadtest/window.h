/* window.h: what one connection was given to send and has not been acked; no I/O, time is an
 * argument. */
#ifndef WSONCE_WINDOW_H
#define WSONCE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "base/list.h"
#include "script.h"

/* One message under way. The window owns it until it is settled; then whoever settled it. */
struct sending {
	struct list link;  /* in one of the window's lists */
	UT_hash_handle hh; /* in window.by_key */
	uint64_t key;      /* number and kind in one */
	struct script_step step;
	int64_t planned_ns; /* when it should have been sent; 0 = no timetable */
	int64_t first_ns;   /* when it was sent first; 0 = not yet */
	int64_t last_ns;    /* when it was sent last */
};

struct window {
	struct list unsent;         /* to be written, in this order */
	struct list sent_events;    /* oldest last_ns first */
	struct list sent_malformed; /* likewise; apart, since their acks name no id */
	struct sending *by_key;
	unsigned int count; /* in all three lists */
};

void window_init(struct window *w);

/* Takes one more message. Returns -1 when there is no memory. */
int window_add(struct window *w, const struct script_step *step, int64_t planned_ns);

bool window_has_unsent(const struct window *w);

/* The message to be written next, which counts as sent now; NULL if there is none. */
struct sending *window_send(struct window *w, int64_t now_ns);

/* Takes m out, whatever became of it; returns it. The caller frees it. */
struct sending *window_take(struct window *w, struct sending *m);

/* Takes out the message that an ack for event n is about: the event before its copy. NULL if there
 * is none. The caller frees it. */
struct sending *window_settle_event(struct window *w, uint64_t n);

/* Takes out the oldest malformed message that was sent. NULL if there is none. The caller frees it. */
struct sending *window_settle_malformed(struct window *w);

/* What was sent before this time is to be sent again, ahead of what was not sent yet. Returns how
 * many. */
unsigned int window_retry(struct window *w, int64_t before_ns);

/* Gives everything to another window. */
void window_move(struct window *from, struct window *to);

/* Frees what is in it. */
void window_clear(struct window *w);

#endif
