/* driver.c owns the functions that libFuzzer calls, limits the cost of an input, and finds a free port. Each fuzzer
 * defines what an input is and what must be true. */
#include <time.h>

#include "fuzz.h"

#define INPUT_MS 2000 /* processor time, so that a busy machine is not a finding */

static long long used_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	long long begin = used_ms(), taken;

	try_input(data, size);
	taken = used_ms() - begin;
	must(taken < INPUT_MS, "an input took %lld ms of processor time", taken);
	return 0;
}

int find_port(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*address);

	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(bind(fd, (struct sockaddr *)address, len) == 0, "no port: %s", strerror(errno));
	getsockname(fd, (struct sockaddr *)address, &len);
	close(fd);
	return ntohs(address->sin_port);
}
