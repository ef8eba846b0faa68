/* Waiting for a condition with a deadline; the only place that stretches deadlines on slow runs. Uses the monotonic
 * clock, and never sleeps longer than a condition needs. */
#ifndef SUPPORT_WAIT_H
#define SUPPORT_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Milliseconds on the monotonic clock. */
static inline int64_t wait_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ms times WSONCE_TEST_SLOW (default 1). Every deadline passed to the support library goes through here once. */
static inline int64_t wait_stretch_ms(int64_t ms)
{
	const char *slow = getenv("WSONCE_TEST_SLOW");
	double factor = slow ? strtod(slow, NULL) : 1;

	return factor > 0 ? (int64_t)((double)ms * factor) : ms;
}

/* The time (as wait_now_ms) in ms, stretched. */
static inline int64_t wait_end_ms(int64_t ms)
{
	return wait_now_ms() + wait_stretch_ms(ms);
}

/* Milliseconds left until end_ms, at least 0: the timeout for poll(). */
static inline int wait_left_ms(int64_t end_ms)
{
	int64_t left = end_ms - wait_now_ms();

	return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Sleeps for exactly ms milliseconds: between two checks of a condition, or in tests about the passing of time. */
static inline void wait_pause_ms(int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	while (nanosleep(&ts, &ts) == -1)
		;
}

/* Pauses before the next check of a condition that has been awaited since began_ms: 5 ms at first, 25 ms after half a
 * second, because a check may cost the listener a page and Postgres a query. */
static inline void wait_before_next_look(int64_t began_ms)
{
	int64_t pause_ms = (wait_now_ms() - began_ms) / 20;

	wait_pause_ms(pause_ms < 5 ? 5 : pause_ms > 25 ? 25 : (int)pause_ms);
}

/* Evaluates expr until it is true or deadline_ms (stretched) have passed. Yields the last result. expr is checked once
 * more after the last pause, however late that ended. */
#define wait_until(expr, deadline_ms) \
	({ \
		int64_t wait_until_began = wait_now_ms(), wait_until_end = wait_end_ms(deadline_ms); \
		bool wait_until_true; \
		for (;;) { \
			int64_t wait_until_now = wait_now_ms(); \
			wait_until_true = (expr); \
			if (wait_until_true || wait_until_now > wait_until_end) \
				break; \
			wait_before_next_look(wait_until_began); \
		} \
		wait_until_true; \
	})

/* The same, and the test fails unless it becomes true. Behind the deadline there may be a message, as in cr_assert().
 */
#define await(expr, deadline_ms, ...) cr_assert(wait_until(expr, deadline_ms), ##__VA_ARGS__)

#endif
