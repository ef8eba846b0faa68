/* stall.h: whether this listener can store rows. No I/O; time is an argument. */
#ifndef WSONCE_STALL_H
#define WSONCE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#define STALL_MS      1000 /* stalled after this long with rows to store and none stored, plus twice a batch's time */
#define STALL_MOST_MS 5000 /* but at most after this long */
#define STALL_LATE_MS 2000 /* without rows: after another statement was late for this long; it may wait for a lock */
#define STALL_BLOCKED 3    /* this many blocked rows, one after the other, count as failures */

struct stall {
	int64_t checked_ms;   /* loop clock */
	int64_t took_ms;      /* duration of the last batch that was stored */
	int64_t unable_ms;    /* how long there have been rows to store and none was stored */
	unsigned int blocked; /* consecutive rows that were blocked */
	bool has_failed;      /* a row was postponed since the last one was stored */
	bool is_stalled;
	bool is_of_rows; /* the stall is */
};

/* A batch was stored in this time. */
void stall_took(struct stall *s, int64_t ms);
/* Postgres stored a row, or refused a bad one: it works. */
void stall_stored(struct stall *s);
/* Postgres could not store a row. */
void stall_failed(struct stall *s);
/* Something blocked this row only: Postgres works, unless several rows in succession are blocked. */
void stall_blocked(struct stall *s);

/* Call it at least twice a second; time in which the process did not run does not count. has_rows: rows wait to be
 * stored. is_late: an answer is late. stall_stored() ends a stall of rows, the answer any other. Returns is_stalled. */
bool stall_check(struct stall *s, bool has_rows, bool is_late, int64_t now_ms);

#endif
