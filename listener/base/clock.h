/* clock.h: reads a system clock as one integer. The loop's own clock is uv_now(). */
#ifndef WSONCE_CLOCK_H
#define WSONCE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static inline int64_t clock_ms(clockid_t clock)
{
	return clock_us(clock) / 1000;
}

/* Converts ms, a time of the loop clock, to milliseconds since 1970, for display. now_ms is the loop clock's time now.
 * 0 (never) stays 0. */
static inline int64_t clock_shown_ms(int64_t ms, int64_t now_ms)
{
	return ms ? clock_ms(CLOCK_REALTIME) - (now_ms - ms) : 0;
}

#endif
