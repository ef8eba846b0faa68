/* Waiting for a condition with a deadline, and the one place that stretches deadlines on slow runs.
 * The time is the monotonic clock's; nothing here sleeps longer than a condition needs. */
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

/* ms times WSONCE_TEST_SLOW (1 when unset), in milliseconds. Every deadline that the support
 * library is given passes through here once. */
static inline int64_t wait_stretch_ms(int64_t ms)
{
	const char *slow = getenv("WSONCE_TEST_SLOW");
	double factor = slow ? strtod(slow, NULL) : 1;

	return factor > 0 ? (int64_t)((double)ms * factor) : ms;
}

/* The moment (wait_now_ms) that lies ms, stretched, ahead. */
static inline int64_t wait_end_ms(int64_t ms)
{
	return wait_now_ms() + wait_stretch_ms(ms);
}

/* Milliseconds left until end, at least 0: what poll() is to be given. */
static inline int wait_left_ms(int64_t end_ms)
{
	int64_t left = end_ms - wait_now_ms();

	return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Sleep for ms milliseconds as they are: between two looks at a condition, or for a test whose
 * subject is the passing of time. */
static inline void wait_pause_ms(int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	while (nanosleep(&ts, &ts) == -1)
		;
}

/* How long to pause before the next look at a condition that has been waited for since began_ms: 5 ms at first, and 25
 * ms from half a second on. A look may cost the listener a page and Postgres a query. */
static inline void wait_before_next_look(int64_t began_ms)
{
	int64_t pause_ms = (wait_now_ms() - began_ms) / 20;

	wait_pause_ms(pause_ms < 5 ? 5 : pause_ms > 25 ? 25 : (int)pause_ms);
}

/* Evaluate expr again and again until it is true or deadline_ms (stretched) have passed. Yields whether
 * it came true. expr is looked at once more after the last pause, however late that ended. */
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

#endif
