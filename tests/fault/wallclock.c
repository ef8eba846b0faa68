/* wallclock.c: preloaded into a listener, it sets its wall clock wrong by as many seconds as the file
 * that WSONCE_WALLCLOCK names holds, an int64_t. The monotonic clock is left alone. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void setup(void)
{
	const char *name = getenv("WSONCE_WALLCLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset_s), PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (map != MAP_FAILED)
		offset_s = map;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	int result;

	if (!real_gettime)
		real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	result = real_gettime(id, now);
	if (!result && offset_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		now->tv_sec += *offset_s;
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec at;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &at))
		return -1;
	*now = (struct timeval){at.tv_sec, at.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *out)
{
	struct timespec at = {0};

	clock_gettime(CLOCK_REALTIME, &at);
	if (out)
		*out = at.tv_sec;
	return at.tv_sec;
}
