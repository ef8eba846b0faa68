/* script.h: which message comes next: a new event, a copy of one, or a malformed one. */
#ifndef WSONCE_SCRIPT_H
#define WSONCE_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "random.h"

enum script_kind {
	SCRIPT_EVENT,     /* event n, for the first time */
	SCRIPT_DUPLICATE, /* event n, once more */
	SCRIPT_MALFORMED, /* malformed message n */
};

struct script_step {
	enum script_kind kind;
	uint64_t n; /* from 1 on; events and malformed messages are numbered apart */
};

struct script_form {
	uint64_t count;    /* of distinct events after the warm-up; 0 = no end */
	uint64_t warm_up;  /* events before the pause that script_resume() ends; 0 = no pause */
	double rate;       /* of distinct events per second; 0 = no timetable */
	double duplicates; /* percent of the events that are sent twice */
	int64_t delay_ns;  /* from an event to its copy; 0 = right after it */
	double late;       /* copies of the warm-up's events, in order, per hundred events after it */
	double malformed;  /* percent of the events that a malformed message follows */
	uint64_t seed;
};

struct script;

/* NULL when there is no memory. form is copied. */
struct script *script_new(const struct script_form *form);

/* The timetable begins now. */
void script_start(struct script *s, int64_t now_ns);

/* Whether the warm-up is over and has not been followed by script_resume(). */
bool script_is_paused(const struct script *s);

/* Ends the pause: the timetable goes on from now on. */
void script_resume(struct script *s, int64_t now_ns);

/* Whether a message is due at now_ns; if so, step is that message. */
bool script_next(struct script *s, int64_t now_ns, struct script_step *step);

/* When event n stands in the timetable; 0 where there is none. */
int64_t script_planned_ns(const struct script *s, uint64_t n);

/* No new events from now on, and no copies of old ones. */
void script_stop(struct script *s);

/* Whether script_next() will never say yes again. */
bool script_is_over(const struct script *s);

void script_free(struct script *s);

#endif
