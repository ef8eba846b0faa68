/* Replaces the clock that libuv reads from the C library. */
#include "clock.h"

#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool is_stopped;
static int64_t passed_ms; /* by clock_pass() */
static int64_t wrong_s;   /* the wall clock, by clock_set_wrong() */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? wrong_s : 0;
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
		return failed;
	int64_t ns = (is_stopped ? 0 : now->tv_nsec) + passed_ms % 1000 * 1000000;
	now->tv_sec = (is_stopped ? 1000 : now->tv_sec) + passed_ms / 1000 + ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return failed;
}

void clock_stop(void)
{
	is_stopped = true;
}

void clock_pass(int64_t ms)
{
	passed_ms += ms;
}

void clock_set_wrong(int64_t s)
{
	wrong_s = s;
}
