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
	uint64_t n; /* from 1; events and malformed messages are numbered separately */
};

struct script_form {
	uint64_t count;    /* distinct events after the warm-up; 0 = no end */
	uint64_t warm_up;  /* events before the pause that script_resume() ends; 0 = no pause */
	double rate;       /* distinct events per second; 0 = no timetable */
	double duplicates; /* percentage of events sent twice */
	int64_t delay_ns;  /* from an event to its copy; 0 = right after it */
	double late;       /* copies of warm-up events, in order, per hundred later events */
	double malformed;  /* percentage of events followed by a malformed message */
	uint64_t seed;
};

struct script;

/* NULL if out of memory. Copies form. */
struct script *script_new(const struct script_form *form);

/* The timetable begins now. */
void script_start(struct script *s, int64_t now_ns);

/* Is the warm-up over, and script_resume() not called yet? */
bool script_is_paused(const struct script *s);

/* Ends the pause: the timetable continues from now. */
void script_resume(struct script *s, int64_t now_ns);

/* Is a message due at now_ns? If so, step is that message. */
bool script_next(struct script *s, int64_t now_ns, struct script_step *step);

/* When event n is due; 0 without a timetable. */
int64_t script_planned_ns(const struct script *s, uint64_t n);

/* Ends the script: no more events or copies. */
void script_stop(struct script *s);

/* Will script_next() never return true again? */
bool script_is_over(const struct script *s);

void script_free(struct script *s);

#endif
