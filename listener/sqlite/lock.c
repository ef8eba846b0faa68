/* lock.c locks one byte of a file. The lock belongs to the open file (F_OFD_SETLK). With F_SETLK, closing any other
 * descriptor of the file would release it. */
#include "sqlite/lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

struct sqlite_lock {
	char *path;
	off_t byte;
	int fd; /* -1: not open */
};

struct sqlite_lock *sqlite_lock_new(const char *path, uint64_t number)
{
	struct sqlite_lock *l = memory_calloc(1, sizeof(*l));

	l->path = memory_printf("%s-leases", path);
	l->byte = (off_t)(number >> 2); /* neither the offset nor the one after it may be negative */
	l->fd = -1;
	return l;
}

static void let_go(struct sqlite_lock *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

/* No other process would see a lock in a deleted file. */
static bool is_deleted(const struct sqlite_lock *l)
{
	struct stat st;

	return fstat(l->fd, &st) || !st.st_nlink;
}

bool sqlite_lock_take(struct sqlite_lock *l)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = l->byte, .l_len = 1};

	if (l->fd >= 0 && is_deleted(l))
		let_go(l);
	if (l->fd < 0)
		l->fd = open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return l->fd >= 0 && fcntl(l->fd, F_OFD_SETLK, &lock) == 0 && !is_deleted(l);
}

void sqlite_lock_free(struct sqlite_lock *l)
{
	let_go(l);
	free(l->path);
	free(l);
}
