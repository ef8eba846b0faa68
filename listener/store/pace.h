/* pace.h: how long rows wait for others to share their statement. No I/O; time is an argument. */
#ifndef WSONCE_PACE_H
#define WSONCE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pace {
	int64_t sent_ms;    /* time of the last statement */
	size_t sent_rows;   /* its rows; 0 if none was sent */
	int64_t awaited_ms; /* last arrival of an event whose sender waits for an ack */
	bool is_awaited;    /* false if there was none for AWAITED_MS */
};

/* An event has arrived whose sender waits for an ack. */
void pace_await(struct pace *p, int64_t now_ms);
/* A statement was sent. */
void pace_sent(struct pace *p, size_t rows, int64_t now_ms);

/* Milliseconds to wait before sending these rows; 0 to send them now. */
int64_t pace_wait(struct pace *p, size_t rows, int64_t now_ms);

#endif
