/* libuv's clock, in place of the C library's. */
#include "clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t stopped_ms; /* 0: the clock goes as usual */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!stopped_ms || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return (int)syscall(SYS_clock_gettime, clock, now);
	now->tv_sec = stopped_ms / 1000;
	now->tv_nsec = stopped_ms % 1000 * 1000000;
	return 0;
}

void clock_stop(void)
{
	stopped_ms = 1000000;
}

void clock_pass(int64_t ms)
{
	stopped_ms += ms;
}
