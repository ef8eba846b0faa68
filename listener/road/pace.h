/* pace.h: for how long rows wait for others to share their statement, where many come. No I/O; time is an argument. */
#ifndef WSONCE_PACE_H
#define WSONCE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pace {
	int64_t sent_ms;    /* when a statement was sent last, */
	size_t sent_rows;   /* and its rows; 0: none was */
	int64_t awaited_ms; /* when an event came last whose sender waits for an answer; */
	bool is_awaited;    /* false: none did, or long ago */
};

/* An event comes now whose sender waits until it is stored. */
void pace_await(struct pace *p, int64_t now_ms);
/* A statement is sent now. */
void pace_sent(struct pace *p, size_t rows, int64_t now_ms);

/* Milliseconds until these rows are to be sent; 0: now. */
int64_t pace_wait(struct pace *p, size_t rows, int64_t now_ms);

#endif
