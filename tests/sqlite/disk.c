/* disk.c is a disk that loses power, fills up or breaks, for one process: a library to load before libc. Of the files
 * named *.db, with their -wal and -journal, and *.segment, it keeps in WSONCE_DISK/after what would be left after a
 * power cut: what was synced, and of what was written since, any of its sectors. The name of a new file may be lost
 * until its folder is synced. It cuts the power after WSONCE_DISK_SYNCS syncs, at a moment drawn from WSONCE_DISK_SEED,
 * and WSONCE_DISK/synced then says up to which byte each file was synced. While a file WSONCE_DISK/full (or /broken) is
 * there, writes fail with ENOSPC (syncs with EIO). With WSONCE_DISK_LIES=1 it takes no notice of syncs, and whoever
 * trusts them loses.
 *
 * With WSONCE_DISK_KILLS=1 the process is killed when it asks for the last of these syncs, and the power stays: the
 * files have all that was written, and WSONCE_DISK/after what was synced. The next process, with WSONCE_DISK_GOES_ON=1,
 * finds both: the first sync of a file brings everything in it to the disk. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SECTOR 512
#define FILES  64

struct pending {
	struct pending *next;
	off_t at;
	size_t len; /* 0: the file was cut to this length */
	char bytes[];
};

struct file {
	int shadow;    /* -1: not one of ours */
	int is_behind; /* the disk lacks what a process before wrote */
	int is_named;  /* in its folder, on the disk */
	off_t end;     /* of what was written */
	off_t synced;  /* its end at the last sync */
	char name[64];
	char path[PATH_MAX];
	struct pending *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file files[FILES]; /* by name */
static struct file *by_fd[4096];
static long syncs_left = -1, writes_left = -1;
static unsigned int seed;

static const char *disk(void)
{
	return getenv("WSONCE_DISK");
}

static int is_there(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", disk(), name);
	return access(path, F_OK) == 0;
}

static void __attribute__((constructor)) begin(void)
{
	const char *text = getenv("WSONCE_DISK_SYNCS");

	seed = (unsigned int)atoi(getenv("WSONCE_DISK_SEED") ? getenv("WSONCE_DISK_SEED") : "1");
	if (text)
		syncs_left = atol(text);
}

static unsigned int draw(void)
{
	seed = seed * 1103515245u + 12345u;
	return seed >> 16;
}

static int ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), len = strlen(end);

	return n > len && strcmp(name + n - len, end) == 0;
}

static struct file *find(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char after[PATH_MAX];

	if (!disk() || (!ends_in(name, ".db") && !ends_in(name, ".db-wal") && !ends_in(name, ".db-journal") &&
			!ends_in(name, ".segment")))
		return NULL;
	for (int i = 0; i < FILES; i++) {
		struct file *f = &files[i];

		if (*f->name && strcmp(f->name, name) == 0)
			return f;
		if (*f->name)
			continue;
		snprintf(f->name, sizeof(f->name), "%s", name);
		snprintf(after, sizeof(after), "%s/after/%s", disk(), name);
		f->is_named = access(after, F_OK) == 0;
		f->shadow =
			(int)((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(after, O_RDWR | O_CREAT, 0644);
		f->last = &f->first;
		f->is_behind = getenv("WSONCE_DISK_GOES_ON") != NULL;
		snprintf(f->path, sizeof(f->path), "%s", path);
		return f;
	}
	return NULL;
}

static void apply(struct file *f, const char *bytes, size_t len, off_t at, int is_torn)
{
	ssize_t (*put)(int, const void *, size_t, off_t) =
		(ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");

	if (!len && (!is_torn || draw() % 2))
		((int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate"))(f->shadow, at);
	for (size_t i = 0; i < len; i += SECTOR) {
		size_t n = len - i < SECTOR ? len - i : SECTOR;

		if (!is_torn || draw() % 2)
			put(f->shadow, bytes + i, n, at + (off_t)i);
	}
}

/* The contents as in the page cache. */
static void copy_whole(struct file *f)
{
	char bytes[65536];
	int fd = ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(f->path, O_RDONLY);
	off_t at = 0;

	for (ssize_t n; (n = read(fd, bytes, sizeof(bytes))) > 0; at += n)
		apply(f, bytes, (size_t)n, at, 0);
	apply(f, NULL, 0, at, 0);
	((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
	f->is_behind = 0;
}

static void flush(struct file *f, int is_torn)
{
	if (f->is_behind && !is_torn)
		copy_whole(f);
	for (struct pending *p = f->first, *next; p; p = next) {
		next = p->next;
		apply(f, p->bytes, p->len, p->at, is_torn);
		free(p);
	}
	f->first = NULL;
	f->last = &f->first;
}

int statvfs(const char *path, struct statvfs *found)
{
	static int (*real)(const char *, struct statvfs *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "statvfs");
	int result = real(path, found);
	if (disk() && is_there("full"))
		found->f_bavail = 0;
	return result;
}

int statvfs64(const char *path, struct statvfs64 *found)
{
	return statvfs(path, (struct statvfs *)found);
}

static void tell_synced(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/synced", disk());
	FILE *out = fopen(path, "w");
	for (int i = 0; out && i < FILES && *files[i].name; i++)
		fprintf(out, "%s %lld\n", files[i].name, (long long)files[i].synced);
	if (out)
		fclose(out);
}

static void cut(void)
{
	tell_synced();
	for (int i = 0; i < FILES && *files[i].name; i++) {
		flush(&files[i], 1);
		if (!files[i].is_named)
			apply(&files[i], NULL, 0, 0, 0);
	}
	_exit(86);
}

static void keep(struct file *f, const void *bytes, size_t len, off_t at)
{
	struct pending *p = malloc(sizeof(*p) + len);

	*p = (struct pending){NULL, at, len};
	if (!len || f->end < at + (off_t)len)
		f->end = at + (off_t)len;
	if (len)
		memcpy(p->bytes, bytes, len);
	*f->last = p;
	f->last = &p->next;
	if (writes_left > 0 && --writes_left == 0)
		cut();
}

static void name_all(int fd)
{
	struct stat about;

	if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode))
		for (int i = 0; i < FILES && *files[i].name; i++)
			files[i].is_named = 1;
}

static int after_sync(struct file *f)
{
	pthread_mutex_lock(&lock);
	if (syncs_left == 1 && getenv("WSONCE_DISK_KILLS"))
		_exit(86);
	f->synced = f->end;
	if (!getenv("WSONCE_DISK_LIES"))
		flush(f, 0);
	if (syncs_left > 0 && --syncs_left == 0)
		writes_left = 1 + draw() % 40;
	pthread_mutex_unlock(&lock);
	return 0;
}

static struct file *of(int fd)
{
	return fd >= 0 && fd < 4096 ? by_fd[fd] : NULL;
}

static int opened(int fd, const char *path)
{
	pthread_mutex_lock(&lock);
	if (fd >= 0 && fd < 4096)
		by_fd[fd] = find(path);
	pthread_mutex_unlock(&lock);
	return fd;
}

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list ap; \
		va_start(ap, flags); \
		int mode = flags & O_CREAT ? va_arg(ap, int) : 0; \
		va_end(ap); \
		return opened(((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode), path); \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
	int name(int dir, const char *path, int flags, ...) \
	{ \
		va_list ap; \
		va_start(ap, flags); \
		int mode = flags & O_CREAT ? va_arg(ap, int) : 0; \
		va_end(ap); \
		return opened(((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name))(dir, path, flags, mode), \
			      path); \
	}
OPENAT(openat)
OPENAT(openat64)

#define PWRITE(name, type) \
	ssize_t name(int fd, const void *bytes, size_t len, type at) \
	{ \
		struct file *f = of(fd); \
		ssize_t done; \
		if (f && is_there("full")) { \
			errno = ENOSPC; \
			return -1; \
		} \
		done = ((ssize_t(*)(int, const void *, size_t, type))dlsym(RTLD_NEXT, #name))(fd, bytes, len, at); \
		if (f && done > 0) { \
			pthread_mutex_lock(&lock); \
			keep(f, bytes, (size_t)done, (off_t)at); \
			pthread_mutex_unlock(&lock); \
		} \
		return done; \
	}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define FTRUNCATE(name, type) \
	int name(int fd, type len) \
	{ \
		struct file *f = of(fd); \
		int failed = ((int (*)(int, type))dlsym(RTLD_NEXT, #name))(fd, len); \
		if (f && !failed) { \
			pthread_mutex_lock(&lock); \
			keep(f, NULL, 0, (off_t)len); \
			pthread_mutex_unlock(&lock); \
		} \
		return failed; \
	}
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define SYNC(name) \
	int name(int fd) \
	{ \
		struct file *f = of(fd); \
		if (f && is_there("broken")) { \
			errno = EIO; \
			return -1; \
		} \
		if (!f) \
			name_all(fd); \
		return f ? after_sync(f) : ((int (*)(int))dlsym(RTLD_NEXT, #name))(fd); \
	}
SYNC(fsync)
SYNC(fdatasync)

static void forget(const char *path)
{
	pthread_mutex_lock(&lock);
	struct file *f = find(path);
	if (f) {
		flush(f, 0);
		apply(f, NULL, 0, 0, 0);
	}
	pthread_mutex_unlock(&lock);
}

int unlinkat(int dir, const char *path, int flags)
{
	forget(path);
	return ((int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat"))(dir, path, flags);
}

int unlink(const char *path)
{
	forget(path);
	return ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path);
}

int close(int fd)
{
	if (fd >= 0 && fd < 4096)
		by_fd[fd] = NULL;
	return ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
}
