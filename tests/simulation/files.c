/* files.c replaces the calls of the kernel that the spool makes: a file system that keeps what was synced, and may lose
 * the rest when the power goes. Other paths are none of its business. */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "process.h"
#include "world.h"

#define ROOT      "/spool/"
#define FIRST_FD  100000
#define FDS       4096
#define FILES_MAX 256              /* of a history */
#define RETRY_US  INT64_C(6000000) /* after a fault, until it writes again */

struct bytes {
	char *at;
	size_t len, room;
};

/* A write that is not synced, or with bytes NULL a truncation to `at`. */
struct change {
	struct change *next;
	size_t at, len;
	char *bytes;
};

struct inode {
	int process;
	char name[64];
	bool is_there, is_entry_synced; /* in its directory; and is that known to the disk? */
	struct bytes now, synced;
	struct change *changes, **last_change; /* since it was synced */
};

static struct {
	struct inode inodes[FILES_MAX];
	int count;
	struct inode *open[FDS]; /* NULL: the directory, or none */
	int open_count;
	int left;         /* changes until the process stops; -1: it does not stop */
	bool is_starting; /* a file that cannot be read then is left for the next start */
	int64_t full_until[SIM_LISTENERS], failing_until[SIM_LISTENERS], unreadable_until[SIM_LISTENERS];
	int64_t disturbed_until[SIM_LISTENERS];
} disks;

/* --- bytes --- */

static void resize(struct bytes *b, size_t len)
{
	if (len > b->room) {
		char *more = process_real_malloc(2 * len);

		if (!more)
			abort();
		if (b->len)
			memcpy(more, b->at, b->len);
		process_real_free(b->at);
		b->at = more;
		b->room = 2 * len;
	}
	if (len > b->len)
		memset(b->at + b->len, 0, len - b->len);
	b->len = len;
}

static void put(struct bytes *b, size_t at, const char *bytes, size_t len)
{
	if (at + len > b->len)
		resize(b, at + len);
	if (len)
		memcpy(b->at + at, bytes, len);
}

static void copy_to(struct bytes *to, const struct bytes *from)
{
	resize(to, 0);
	put(to, 0, from->at, from->len);
}

/* --- files --- */

static void note_change(struct inode *f, size_t at, const char *bytes, size_t len)
{
	struct change *c = sim_alloc(sizeof(*c));

	*c = (struct change){.at = at, .len = len, .bytes = bytes ? sim_copy(bytes, len) : NULL};
	*f->last_change = c;
	f->last_change = &c->next;
}

static void forget_changes(struct inode *f)
{
	f->changes = NULL;
	f->last_change = &f->changes;
}

static struct inode *find(int process, const char *name)
{
	for (int i = 0; i < disks.count; i++)
		if (disks.inodes[i].is_there && disks.inodes[i].process == process &&
		    strcmp(disks.inodes[i].name, name) == 0)
			return &disks.inodes[i];
	return NULL;
}

static struct inode *make(int process, const char *name)
{
	struct inode *f = &disks.inodes[disks.count++];
	struct bytes now = f->now, synced = f->synced;

	if (disks.count == FILES_MAX || strlen(name) >= sizeof(f->name))
		process_fail("too many files");
	now.len = synced.len = 0;
	*f = (struct inode){.process = process, .is_there = true, .now = now, .synced = synced};
	strcpy(f->name, name);
	forget_changes(f);
	return f;
}

/* What of a path lies behind ROOT, or NULL. Sets the process whose disk it is. */
static const char *ours(const char *path, int *process)
{
	if (strncmp(path, ROOT, strlen(ROOT)) != 0)
		return NULL;
	path += strlen(ROOT);
	*process = *path - '0';
	return path[1] == '/' ? path + 2 : path + 1;
}

static struct inode *file_of(int fd)
{
	struct inode *f = fd >= FIRST_FD && fd < FIRST_FD + disks.open_count ? disks.open[fd - FIRST_FD] : NULL;

	if (!f)
		process_fail("descriptor %d is no open file of the spool", fd);
	return f;
}

/* A change was made, or is about to be. */
static void count_change(void)
{
	if (disks.left > 0 && --disks.left == 0) {
		disks.left = -1;
		process_stop();
	}
}

void files_start_process(bool is_starting)
{
	disks.is_starting = is_starting;
}

void files_stop_after(int changes)
{
	disks.left = changes;
}

/* --- what the checker asks --- */

static bool has(const struct bytes *b, const char *bytes, size_t len)
{
	return b->len && memmem(b->at, b->len, bytes, len);
}

bool files_have(int process, const char *bytes, size_t len, bool is_synced)
{
	for (int i = 0; i < disks.count; i++) {
		const struct inode *f = &disks.inodes[i];

		if (f->process == process && f->is_there && (f->is_entry_synced || !is_synced) &&
		    has(is_synced ? &f->synced : &f->now, bytes, len))
			return true;
	}
	return false;
}

int64_t files_disturbed_until(int process)
{
	return disks.disturbed_until[process];
}

int64_t files_unreadable_until(int process)
{
	return disks.unreadable_until[process] ? disks.unreadable_until[process] + RETRY_US : 0;
}

/* A file is removed: each event in it is settled, or in another file. */
static void check_unneeded(const struct inode *f)
{
	const struct plan *plan = world_plan();

	for (int i = 0; i < plan->message_count; i++) {
		const struct message *m = &plan->messages[i];

		if (m->event >= 0 && has(&f->now, m->bytes, m->len) && !checker_was_kept(i) &&
		    !checker_is_scrap(f->process, i) && !files_have(f->process, m->bytes, m->len, false))
			process_fail("a segment with %s is removed, which is not stored", plan->ids[m->event]);
	}
}

/* --- losing power --- */

/* Writes may reach the disk in any order, and in part. */
static void lose_changes(struct inode *f)
{
	for (const struct change *c = f->changes; c; c = c->next) {
		if (sim_chance(400))
			continue;
		if (!c->bytes)
			resize(&f->synced, c->at);
		else
			put(&f->synced, c->at, c->bytes, sim_chance(700) ? c->len : sim_below(c->len + 1));
	}
	forget_changes(f);
	copy_to(&f->now, &f->synced);
}

void files_lose_power(int process)
{
	for (int i = 0; i < disks.count; i++) {
		struct inode *f = &disks.inodes[i];

		if (f->process != process)
			continue;
		if (!f->is_entry_synced && sim_chance(500) && (f->is_there || !find(process, f->name)))
			f->is_there = !f->is_there; /* it was made or removed */
		f->is_entry_synced = true;
		lose_changes(f);
	}
}

/* --- calls --- */

static int open_inode(struct inode *f)
{
	if (disks.open_count == FDS)
		process_fail("too many open files");
	disks.open[disks.open_count++] = f;
	return FIRST_FD + disks.open_count - 1;
}

/* Of the directory. */
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	int process;
	const char *name = ours(path, &process);

	return name ? open_inode(find(process, name)) : __real_open64(path, flags, 0600);
}

int __wrap_openat64(int dir, const char *name, int flags, ...);
int __wrap_openat64(int dir, const char *name, int flags, ...)
{
	int process = file_of(dir)->process;
	struct inode *f = find(process, name);

	if (!f && !(flags & O_CREAT)) {
		errno = ENOENT;
		return -1;
	}
	if (f && flags & O_EXCL) {
		errno = EEXIST;
		return -1;
	}
	if (!f && sim_now() < disks.full_until[process]) {
		errno = ENOSPC;
		return -1;
	}
	if (!f) {
		count_change();
		f = make(process, name);
	}
	return open_inode(f);
}

/* Its owner and links. The directory is our own. */
int __real_fstat64(int fd, struct stat *seen);
int __wrap_fstat64(int fd, struct stat *seen);
int __wrap_fstat64(int fd, struct stat *seen)
{
	if (fd < FIRST_FD)
		return __real_fstat64(fd, seen);
	*seen = (struct stat){.st_uid = geteuid(), .st_nlink = file_of(fd)->is_there};
	return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	if (fd < FIRST_FD)
		return __real_close(fd);
	file_of(fd);
	disks.open[fd - FIRST_FD] = NULL;
	return 0;
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
	struct inode *f = file_of(fd);
	bool is_full = sim_now() < disks.full_until[f->process];
	bool is_cut = disks.left == 1;

	if (sim_now() < disks.failing_until[f->process]) {
		sim_reached("disk", "a write fails");
		errno = EIO;
		return -1;
	}
	if (is_full || is_cut)
		len = sim_below(len + 1);
	else if (sim_chance(20))
		len = 1 + sim_below(len);
	if (is_full && !len) {
		sim_reached("disk", "it is full");
		errno = ENOSPC;
		return -1;
	}
	put(&f->now, (size_t)at, bytes, len);
	note_change(f, (size_t)at, bytes, len);
	count_change();
	return (ssize_t)len;
}

ssize_t __wrap_pread64(int fd, void *bytes, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *bytes, size_t len, off_t at)
{
	const struct inode *f = file_of(fd);

	if (sim_now() < disks.unreadable_until[f->process] && !disks.is_starting) {
		sim_reached("disk", "a read fails");
		errno = EIO;
		return -1;
	}
	if ((size_t)at >= f->now.len)
		return 0;
	len = len < f->now.len - (size_t)at ? len : f->now.len - (size_t)at;
	memcpy(bytes, f->now.at + at, len);
	return (ssize_t)len;
}

int __wrap_ftruncate64(int fd, off_t len);
int __wrap_ftruncate64(int fd, off_t len)
{
	struct inode *f = file_of(fd);

	resize(&f->now, (size_t)len);
	note_change(f, (size_t)len, NULL, 0);
	count_change();
	return 0;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	struct inode *f = file_of(fd);

	if (sim_now() < disks.failing_until[f->process]) {
		sim_reached("disk", "a sync fails");
		errno = EIO;
		return -1;
	}
	copy_to(&f->synced, &f->now);
	forget_changes(f);
	return 0;
}

/* Of the directory. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	int process = file_of(fd)->process;

	for (int i = 0; i < disks.count; i++)
		if (disks.inodes[i].process == process)
			disks.inodes[i].is_entry_synced = true;
	return 0;
}

off_t __wrap_lseek64(int fd, off_t at, int whence);
off_t __wrap_lseek64(int fd, off_t at, int whence)
{
	const struct inode *f = file_of(fd);

	if (whence != SEEK_END || at)
		process_fail("lseek is only played to the end");
	return (off_t)f->now.len;
}

int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
	(void)operation;
	file_of(fd);
	return 0;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
	(void)path, (void)mode;
	errno = EEXIST;
	return -1;
}

static int remove_entry(int dir, const char *name, bool is_checked)
{
	struct inode *f = find(file_of(dir)->process, name);

	if (!f) {
		errno = ENOENT;
		return -1;
	}
	f->is_there = f->is_entry_synced = false;
	if (is_checked)
		check_unneeded(f);
	count_change();
	return 0;
}

int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags)
{
	(void)flags;
	return remove_entry(dir, name, true);
}

/* Only to set a damaged segment aside: it is as good as gone. */
int __wrap_renameat(int dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int dir, const char *from, int to_dir, const char *to)
{
	(void)to_dir, (void)to;
	return remove_entry(dir, from, false);
}

int __wrap_scandir64(const char *path, struct dirent ***entries, int (*is_wanted)(const struct dirent *),
		     int (*compare)(const struct dirent **, const struct dirent **));
int __wrap_scandir64(const char *path, struct dirent ***entries, int (*is_wanted)(const struct dirent *),
		     int (*compare)(const struct dirent **, const struct dirent **))
{
	int process, n = 0;

	if (!ours(path, &process))
		process_fail("the directory %s is not played", path);
	*entries = malloc((size_t)disks.count * sizeof(**entries) + 1);
	for (int i = 0; i < disks.count; i++) {
		struct dirent entry = {.d_type = DT_REG};

		strcpy(entry.d_name, disks.inodes[i].name);
		if (!disks.inodes[i].is_there || disks.inodes[i].process != process || !is_wanted(&entry))
			continue;
		(*entries)[n] = malloc(sizeof(entry));
		*(*entries)[n++] = entry;
	}
	qsort(*entries, (size_t)n, sizeof(**entries), (int (*)(const void *, const void *))compare);
	return n;
}

/* --- faults --- */

static int disk_of(uint64_t *draw)
{
	return (int)sim_dice(draw, (uint64_t)world_plan()->settings.listeners);
}

static void begin(int process, int64_t *until, int64_t lasts_us, const char *what)
{
	int64_t quiet = sim_now() + lasts_us + RETRY_US;

	sim_log(process, "its disk %s for %.3f s", what, (double)lasts_us / 1e6);
	until[process] = sim_now() + lasts_us;
	if (disks.disturbed_until[process] < quiet)
		disks.disturbed_until[process] = quiet;
}

static void begin_full(uint64_t draw, int64_t lasts_us)
{
	begin(disk_of(&draw), disks.full_until, lasts_us, "is full");
}

static void begin_failing(uint64_t draw, int64_t lasts_us)
{
	begin(disk_of(&draw), disks.failing_until, lasts_us, "fails to write");
}

static void begin_unreadable(uint64_t draw, int64_t lasts_us)
{
	begin(disk_of(&draw), disks.unreadable_until, lasts_us, "cannot be read");
}

const struct sim_fault sim_disk_faults[] = {
	{"disk: full", 10, begin_full, true},
	{"disk: writes fail", 10, begin_failing, true},
	{"disk: reads fail", 10, begin_unreadable, true},
	{NULL, 0, NULL, false},
};

void files_calm(void)
{
	for (int i = 0; i < SIM_LISTENERS; i++)
		disks.full_until[i] = disks.failing_until[i] = disks.unreadable_until[i] = 0;
}

const char *files_directory(int process)
{
	static char paths[SIM_LISTENERS][16];

	snprintf(paths[process], sizeof(paths[process]), ROOT "%d", process);
	return paths[process];
}

/* The memory of the files stays for the next history. */
void files_start(void)
{
	disks.count = disks.open_count = 0;
	disks.left = -1;
	files_calm();
	memset(disks.disturbed_until, 0, sizeof(disks.disturbed_until));
	for (int i = 0; i < SIM_LISTENERS; i++)
		make(i, "")->is_entry_synced = true; /* the directory itself */
}
