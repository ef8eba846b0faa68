/* turns.h: without Redis, whose turn it is to store an event, and when Postgres is asked what others have stored. No
 * I/O; time is an argument. */
#ifndef WSONCE_TURNS_H
#define WSONCE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "road/event.h"

struct turns {
	struct list due;   /* events in EV_HELD whose turn has come: they wait for an answer, by wait_link */
	int64_t asked_ms;  /* when Postgres was asked last what is new in the table; 0: never, */
	int64_t before_ms; /* and when before that */
	int64_t late_ms;   /* how late others store, at least, as the last answers showed */
	int64_t stored_ms; /* when a batch was sent last */
	bool is_asked;     /* there is no answer yet */
};

void turns_init(struct turns *t);

/* For how long the listener of this rank, from 1, waits for those before it: a step of hold.h. */
unsigned int turns_step(const struct turns *t, size_t rank);

/* The row of an event that is here since then is among the newest. */
void turns_saw(struct turns *t, int64_t since_ms);

/* The turn of ev has come: what is new in the table, or that it cannot be told, decides. */
void turns_add(struct turns *t, struct event *ev, int64_t now_ms);

/* Milliseconds until Postgres is to be asked; 0: now; -1: there is nothing to ask for. others: listeners. is_pressed:
 * many events wait, and reading may have to. */
int64_t turns_ask_wait(const struct turns *t, size_t others, bool is_pressed, int64_t now_ms);
/* It is asked now. */
void turns_asked(struct turns *t, int64_t now_ms);
/* The answer is here: takes out an event that had its turn before the question; NULL: there is none. */
struct event *turns_answered(struct turns *t);

/* Milliseconds for which events wait for others to share their statement. */
int64_t turns_store_wait(const struct turns *t, size_t others, int64_t now_ms);

#endif
