/* preload.c makes one allocation of a whole process fail, libraries and all, and then works again: for
 * LD_PRELOAD, on a C library whose own malloc is called __libc_malloc (glibc).
 *
 * WSONCE_ALLOCATIONS names a file of three 64-bit numbers, mapped for as long as the process lives: how
 * many allocations there were, which one is to fail, which one did. The rig may write the second at any
 * time. Where the failed one was asked for is written to FILE.failed, and where a crash was, to FILE.crash.
 * If WSONCE_ALLOCATION_SITES names a file, it gets a 64-bit number for each allocation, which is the same for
 * those that were asked for from the same place, by the same callers. */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAMES      40
#define SITE_FRAMES 6

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

struct shared {
	_Atomic uint64_t count;
	_Atomic uint64_t wanted;
	_Atomic uint64_t failed;
};

static struct shared *shared; /* NULL: nothing is counted */
static int failed_fd, crash_fd, sites_fd = -1;

static void write_trace(int fd)
{
	void *frames[FRAMES];

	backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
}

/* FNV-1a over the return addresses. */
static void write_site(uint64_t number)
{
	void *frames[SITE_FRAMES];
	int count = backtrace(frames, SITE_FRAMES);
	uint64_t site = 14695981039346656037u;

	for (int i = 0; i < count; i++)
		site = (site ^ (uintptr_t)frames[i]) * 1099511628211u;
	if (pwrite(sites_fd, &site, sizeof(site), (off_t)((number - 1) * sizeof(site))) < 0)
		_exit(70);
}

static bool must_fail(void)
{
	uint64_t number = shared ? atomic_fetch_add(&shared->count, 1) + 1 : 0;

	if (number && sites_fd >= 0)
		write_site(number);
	if (!number || number != atomic_load(&shared->wanted))
		return false;
	atomic_store(&shared->failed, number);
	write_trace(failed_fd);
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return must_fail() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return must_fail() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	return size && must_fail() ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
	return must_fail() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
	*block = memalign(alignment, size);
	return *block ? 0 : ENOMEM;
}

static void on_crash(int number)
{
	write_trace(crash_fd);
	raise(number); /* the handler was for once */
}

static int open_beside(const char *path, const char *suffix)
{
	char name[400];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void begin(void)
{
	static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
	const struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND | SA_NODEFER};
	const char *path = getenv("WSONCE_ALLOCATIONS"), *sites = getenv("WSONCE_ALLOCATION_SITES");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *frame, *at;

	if (fd < 0)
		return;
	if (sites)
		sites_fd = open_beside(sites, "");
	failed_fd = open_beside(path, ".failed");
	crash_fd = open_beside(path, ".crash");
	backtrace(&frame, 1); /* loads what it needs now */
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
	at = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		shared = at;
}
