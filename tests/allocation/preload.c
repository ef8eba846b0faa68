/* preload.c makes one allocation of a whole process fail, libraries and all, and then works again: for
 * LD_PRELOAD, on a C library whose own malloc is called __libc_malloc (glibc). With WSONCE_FAILING=calls it is one of
 * the calls by which the process talks to a socket or a file.
 *
 * WSONCE_ALLOCATIONS names a file of three 64-bit numbers, mapped for as long as the process lives: how
 * many there were, which one is to fail, which one did. Of calls it is not the number of the one that is to fail, which
 * would be another call in each life, but its place: the first from there fails. The rig may write the second at any
 * time. Where the failed one was asked for is written to FILE.failed, and where a crash was, to FILE.crash.
 * If WSONCE_ALLOCATION_SITES names a file, it gets a 64-bit number for each allocation, which is the same for
 * those that were asked for from the same place, by the same callers. */
#include <dlfcn.h>
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAMES           40
#define SITE_FRAMES      6
#define CALL_SITE_FRAMES 10

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
static bool is_of_calls; /* they are counted, and not allocations */

static void write_trace(int fd)
{
	void *frames[FRAMES];

	backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
}

/* FNV-1a over the return addresses, as they are in their files, so that it is the same in each process. */
static uint64_t find_site(void)
{
	void *frames[CALL_SITE_FRAMES];
	int count = backtrace(frames, is_of_calls ? CALL_SITE_FRAMES : SITE_FRAMES);
	uint64_t site = 14695981039346656037u;
	Dl_info about;

	for (int i = 0; i < count; i++)
		if (dladdr(frames[i], &about))
			site = (site ^ ((uintptr_t)frames[i] - (uintptr_t)about.dli_fbase)) * 1099511628211u;
	return site;
}

static bool must_fail(bool is_call, int error)
{
	uint64_t number = shared && is_call == is_of_calls ? atomic_fetch_add(&shared->count, 1) + 1 : 0;
	uint64_t site = number && (is_call || sites_fd >= 0) ? find_site() : 0;

	if (number && sites_fd >= 0 && pwrite(sites_fd, &site, sizeof(site), (off_t)((number - 1) * sizeof(site))) < 0)
		_exit(70);
	if (!number || atomic_load(&shared->failed) || atomic_load(&shared->wanted) != (is_call ? site : number))
		return false;
	atomic_store(&shared->failed, number);
	write_trace(failed_fd);
	errno = error;
	return true;
}

void *malloc(size_t size)
{
	return must_fail(false, ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return must_fail(false, ENOMEM) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	return size && must_fail(false, ENOMEM) ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
	return must_fail(false, ENOMEM) ? NULL : __libc_memalign(alignment, size);
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

/* --- calls --- */

/* The others, of eventfd and the like, do not fail, and neither does the log, by which the rig finds the port. */
static bool is_outside(int fd)
{
	struct stat about;

	return shared && is_of_calls && fd > STDERR_FILENO && fstat(fd, &about) == 0 &&
	       (S_ISSOCK(about.st_mode) || S_ISREG(about.st_mode) || S_ISDIR(about.st_mode));
}

#define CALL(type, name, parameters, arguments, is_counted, error) \
	type name parameters \
	{ \
		static type(*real) parameters; \
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		return is_counted && must_fail(true, error) ? -1 : real arguments; \
	}
CALL(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), is_outside(fd), ECONNRESET)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), is_outside(fd), ECONNRESET)
CALL(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), is_outside(fd), ECONNRESET)
CALL(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags), (fd, to, n, room, flags),
     is_outside(fd), ECONNRESET)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags), is_outside(fd), ECONNRESET)
CALL(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), is_outside(fd), ENOSPC)
CALL(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n), is_outside(fd), ENOSPC)
CALL(ssize_t, pwrite64, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), is_outside(fd), ENOSPC)
CALL(int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), is_outside(fd), ECONNREFUSED)
CALL(int, fsync, (int fd), (fd), is_outside(fd), EIO)
CALL(int, fdatasync, (int fd), (fd), is_outside(fd), EIO)
CALL(int, rename, (const char *from, const char *to), (from, to), true, EIO)

/* --- beginning --- */

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
	is_of_calls = getenv("WSONCE_FAILING") != NULL;
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
