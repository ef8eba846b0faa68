/* stall.h: whether this listener can store what it has. No I/O; time is an argument. */
#ifndef WSONCE_STALL_H
#define WSONCE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#define STALL_MS      1000 /* without a row stored while there are some to store; */
#define STALL_MOST_MS 5000 /* or so long, where a batch takes that long */
#define STALL_BLOCKED 3    /* or so many rows in a row that were each blocked */

struct stall {
	int64_t checked_ms;   /* loop clock */
	int64_t took_ms;      /* the last batch that was stored */
	int64_t unable_ms;    /* for how long there were rows to store and none was */
	unsigned int blocked; /* rows in a row that Postgres answered about, and could not store yet */
	bool has_failed;      /* a row was put off since one was stored */
	bool is_stalled;
};

/* A batch is stored, and that took so long. */
void stall_took(struct stall *s, int64_t ms);
/* Postgres said of a row that it is stored, or that the row itself is bad: it works. */
void stall_stored(struct stall *s);
/* Postgres could not store a row, which left the store. */
void stall_failed(struct stall *s);
/* The same, but it was about this row: Postgres works, unless several rows in a row have such trouble. */
void stall_blocked(struct stall *s);

/* To be called at least twice a second: time in which this process did not run does not count. has_rows: there is
 * something to store. Returns is_stalled, which ends with stall_stored(). */
bool stall_check(struct stall *s, bool has_rows, int64_t now_ms);

#endif
