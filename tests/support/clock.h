/* A monotonic clock that a test can stop and move forward, for tests that need no other process. */
#ifndef SUPPORT_CLOCK_H
#define SUPPORT_CLOCK_H

#include <stdint.h>

/* Stops the clock until clock_pass(). Call it before the loop is made, and not with libwebsockets: if one of its timers
 * is due within a millisecond, it asks for the time again and again. */
void clock_stop(void);

/* Moves the clock by ms; a loop sees it at its next uv_run() or uv_update_time(). */
void clock_pass(int64_t ms);

/* The wall clock is ahead of the true one by s seconds. */
void clock_set_wrong(int64_t s);

#endif
