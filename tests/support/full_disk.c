/* full_disk.c simulates a full disk for a Postgres server: a library to preload. While the file named by
 * WSONCE_FULL_DISK exists, writes that would extend a file of a table or index fail with ENOSPC. Existing blocks can
 * be overwritten. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Looks up a function of the C library. memcpy, because C has no cast from data to function pointers. */
static void find(const char *name, void *function)
{
	void *found = dlsym(RTLD_NEXT, name);

	memcpy(function, &found, sizeof(found));
}

static int is_refused(int fd, off_t end)
{
	const char *full = getenv("WSONCE_FULL_DISK");
	char link[40], path[4096];
	struct stat file;

	if (!full || access(full, F_OK) || fstat(fd, &file) || end <= file.st_size)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	path[len < 0 ? 0 : len] = '\0';
	errno = ENOSPC;
	return strstr(path, "/base/") != NULL;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	static ssize_t (*real)(int, const void *, size_t, off_t);

	if (!real)
		find("pwrite", &real);
	return is_refused(fd, at + (off_t)len) ? -1 : real(fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
	return pwrite(fd, bytes, len, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
	static ssize_t (*real)(int, const struct iovec *, int, off_t);

	if (!real)
		find("pwritev", &real);
	return is_refused(fd, at + 1) ? -1 : real(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at)
{
	return pwritev(fd, parts, count, at);
}

int posix_fallocate(int fd, off_t at, off_t len)
{
	static int (*real)(int, off_t, off_t);

	if (!real)
		find("posix_fallocate", &real);
	return is_refused(fd, at + len) ? ENOSPC : real(fd, at, len);
}

int posix_fallocate64(int fd, off_t at, off_t len)
{
	return posix_fallocate(fd, at, len);
}
