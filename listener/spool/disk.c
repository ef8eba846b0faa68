/* disk.c owns a directory of segments: its lock and its files. Jobs that were asked for while others were done are done
 * together, on a thread of libuv's, which has no others. */
#include "spool/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

struct disk {
	uv_loop_t *loop;
	const char *dir;
	int64_t sync_ms;
	disk_cb *done;
	void *arg;
	int lock;
	struct list asked, at_work;
	uv_work_t work;
	uv_timer_t sync_timer;
	bool is_working;

	/* The thread's, while it works: */
	int fd;  /* of the segment that is written, or -1 */
	int why; /* errno why there is none */
	struct segment_head head;
	off_t size;
	int read_fd; /* or -1 */
	struct segment_reader reader;
};

/* --- the thread --- */

static const char *path_of(const struct disk *d, char path[PATH_MAX], uint64_t first, const char *more)
{
	snprintf(path, PATH_MAX, "%s/" SEGMENT_NAME "%s", d->dir, (unsigned long long)first, more);
	return path;
}

static void sync_dir(const struct disk *d)
{
	int fd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

/* Returns 0 or an errno. */
static int write_at(int fd, const char *bytes, size_t len, off_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, bytes, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : ENOSPC;
		bytes += n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Leaves the segment that is written, because of an error if why is not 0: then what is beyond its last whole record is
 * cut. Returns why. */
static int leave_segment(struct disk *d, int why)
{
	if (d->fd < 0)
		return why;
	if (why && ftruncate(d->fd, d->size))
		log_warn("cannot cut a segment of the spool", "reason=%s", strerror(errno));
	fdatasync(d->fd);
	close(d->fd);
	d->fd = -1;
	d->why = why ? why : EBADF;
	return why;
}

static int begin_segment(struct disk *d, const struct segment_head *head)
{
	char path[PATH_MAX], bytes[SEGMENT_HEAD];
	int error;

	leave_segment(d, 0);
	d->fd = open(path_of(d, path, head->first, ""), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (d->fd < 0)
		return d->why = errno;
	segment_head_write(bytes, head);
	error = write_at(d->fd, bytes, sizeof(bytes), 0);
	d->head = *head;
	d->size = error ? 0 : SEGMENT_HEAD;
	sync_dir(d);
	return error ? leave_segment(d, error) : 0;
}

static int append(struct disk *d, const char *bytes, size_t len)
{
	int error = d->fd < 0 ? d->why : write_at(d->fd, bytes, len, d->size);

	if (error)
		return leave_segment(d, error);
	d->size += (off_t)len;
	return 0;
}

/* A count that cannot be written is found out when the segment is read. */
static void end_segment(struct disk *d, uint64_t count)
{
	char bytes[SEGMENT_HEAD];

	if (d->fd < 0)
		return;
	d->head.count = count;
	segment_head_write(bytes, &d->head);
	write_at(d->fd, bytes, sizeof(bytes), 0);
	leave_segment(d, 0);
}

static void stop_reading(struct disk *d)
{
	if (d->read_fd >= 0)
		close(d->read_fd);
	d->read_fd = -1;
	segment_close(&d->reader);
}

static void remove_segment(const struct disk *d, uint64_t first, bool is_bad)
{
	char path[PATH_MAX], bad[PATH_MAX];

	path_of(d, path, first, "");
	if (is_bad)
		rename(path, path_of(d, bad, first, SEGMENT_BAD));
	else
		unlink(path);
}

static int start_reading(struct disk *d, uint64_t first)
{
	char path[PATH_MAX];

	stop_reading(d);
	d->read_fd = open(path_of(d, path, first, ""), O_RDONLY | O_CLOEXEC);
	if (d->read_fd < 0)
		return errno;
	d->reader = (struct segment_reader){.read = segment_pread, .source = &d->read_fd};
	if (segment_open(&d->reader) == SEGMENT_RECORD)
		return 0;
	return d->reader.error ? d->reader.error : EBADMSG;
}

static int read_segment(struct disk *d, struct disk_job *j)
{
	bool is_begun = d->read_fd >= 0 && d->reader.head.first == j->head.first && !j->flag;
	size_t most = j->len, room = 0, wrong;
	enum segment_step step = SEGMENT_RECORD;
	struct record r;
	int error = is_begun ? 0 : start_reading(d, j->head.first);

	wrong = d->reader.wrong;
	j->len = 0;
	while (!error && j->len < most && (step = segment_next(&d->reader, &r)) == SEGMENT_RECORD) {
		if (j->len + d->reader.size > room) {
			room = most + j->len + d->reader.size;
			j->bytes = memory_realloc(j->bytes, room);
		}
		memcpy(j->bytes + j->len, d->reader.whole, d->reader.size);
		j->len += d->reader.size;
	}
	j->flag = step == SEGMENT_END;
	j->wrong = d->reader.wrong - wrong;
	if (step == SEGMENT_FAILED)
		error = d->reader.error;
	if (error)
		stop_reading(d);
	return error;
}

static void run(struct disk *d, struct disk_job *j)
{
	switch (j->task) {
	case DISK_BEGIN:
		j->error = begin_segment(d, &j->head);
		return;
	case DISK_APPEND:
		j->error = append(d, j->bytes, j->len);
		return;
	case DISK_END:
		end_segment(d, j->head.count);
		return;
	case DISK_REMOVE:
		remove_segment(d, j->head.first, j->flag);
		return;
	case DISK_READ:
		j->error = read_segment(d, j);
		return;
	case DISK_SYNC:
		j->error = d->fd >= 0 && fdatasync(d->fd) ? leave_segment(d, errno) : 0;
		return;
	case DISK_CLOSE:
		leave_segment(d, 0);
		stop_reading(d);
		return;
	}
}

static void work(uv_work_t *request)
{
	struct disk *d = request->data;

	list_each(node, after, &d->at_work)
		run(d, list_entry(node, struct disk_job, link));
}

/* --- the loop --- */

static void on_worked(uv_work_t *request, int status);

static void begin_work(struct disk *d)
{
	if (d->is_working || list_is_empty(&d->asked))
		return;
	d->is_working = true;
	list_each(node, after, &d->asked) {
		list_remove(node);
		list_append(&d->at_work, node);
	}
	uv_queue_work(d->loop, &d->work, work, on_worked);
}

static void on_sync_timer(uv_timer_t *timer)
{
	disk_ask(timer->data, &(const struct disk_job){.task = DISK_SYNC});
}

static void on_closed(uv_handle_t *handle)
{
	struct disk *d = handle->data;

	close(d->lock);
	d->done(d->arg, &(const struct disk_job){.task = DISK_CLOSE});
	free(d);
}

static void on_worked(uv_work_t *request, int status)
{
	struct disk *d = request->data;

	(void)status;
	list_each(node, after, &d->at_work) {
		struct disk_job *j = list_entry(node, struct disk_job, link);

		list_remove(node);
		if (j->task == DISK_CLOSE)
			uv_close((uv_handle_t *)&d->sync_timer, on_closed);
		else
			d->done(d->arg, j);
		if (j->task == DISK_APPEND && !uv_is_active((uv_handle_t *)&d->sync_timer))
			uv_timer_start(&d->sync_timer, on_sync_timer, (uint64_t)d->sync_ms, 0);
		free(j->bytes);
		free(j);
	}
	d->is_working = false;
	begin_work(d);
}

void disk_ask(struct disk *d, const struct disk_job *job)
{
	struct disk_job *j = memory_alloc(sizeof(*j));

	*j = *job;
	list_append(&d->asked, &j->link);
	begin_work(d);
}

/* --- the start --- */

static int refuse(int fd, const char *dir, const char *what, char *error, size_t size)
{
	snprintf(error, size, "%s the directory of --spool, %s: %s", what, dir,
		 errno == EWOULDBLOCK ? "another process uses it; give each listener a directory of its own"
				      : strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns the file descriptor of the lock, or -1 and a sentence in error. */
static int lock_dir(const char *dir, char *error, size_t size)
{
	char path[PATH_MAX];
	int fd;

	if (mkdir(dir, 0700) && errno != EEXIST)
		return refuse(-1, dir, "cannot make", error, size);
	snprintf(path, sizeof(path), "%s/" SEGMENT_LOCK, dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refuse(fd, dir, "cannot write to", error, size);
	return flock(fd, LOCK_EX | LOCK_NB) ? refuse(fd, dir, "cannot lock", error, size) : fd;
}

/* Sets the head of a segment, with its count, if it has records. Returns its bytes. A file without records is removed,
 * and one that is not a segment is renamed. */
static uint64_t look(const struct disk *d, uint64_t first, struct segment_head *head)
{
	char path[PATH_MAX];
	int fd = open(path_of(d, path, first, ""), O_RDONLY | O_CLOEXEC);
	struct segment_reader s = {.read = segment_pread, .source = &fd};
	enum segment_step step = segment_open(&s);
	struct record r;
	off_t bytes = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;

	*head = s.head;
	while (step == SEGMENT_RECORD && !s.head.count && segment_next(&s, &r) == SEGMENT_RECORD)
		head->count = r.ordinal - s.head.first + 1;
	if (s.torn)
		log_warn("the last record of a spool segment is incomplete, and was ignored", "segment=%llu bytes=%zu",
			 (unsigned long long)first, s.torn);
	if (step == SEGMENT_FAILED)
		log_error("a file in the spool is not a segment, and was renamed", "file=%s reason=%s", path,
			  s.error ? strerror(s.error) : "its first bytes are wrong");
	if (!head->count)
		remove_segment(d, first, step == SEGMENT_FAILED);
	segment_close(&s);
	if (fd >= 0)
		close(fd);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static void find_segments(struct disk *d, disk_found_cb *found)
{
	struct dirent **entries;
	int n = scandir(d->dir, &entries, segment_is_entry, alphasort);

	for (int i = 0; i < n; i++) {
		struct segment_head head;
		unsigned long long first;
		uint64_t bytes;

		segment_is_name(entries[i]->d_name, &first);
		bytes = look(d, first, &head);
		if (head.count)
			found(d->arg, &head, bytes);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

struct disk *disk_open(uv_loop_t *loop, const char *dir, int64_t sync_ms, disk_cb *done, disk_found_cb *found,
		       void *arg, char *error, size_t size)
{
	int lock = lock_dir(dir, error, size);
	struct disk *d;

	if (lock < 0)
		return NULL;
	d = memory_calloc(1, sizeof(*d));
	d->loop = loop;
	d->dir = dir;
	d->sync_ms = sync_ms;
	d->done = done;
	d->arg = arg;
	d->lock = lock;
	d->fd = d->read_fd = -1;
	d->why = EBADF;
	list_init(&d->asked);
	list_init(&d->at_work);
	uv_timer_init(loop, &d->sync_timer);
	d->sync_timer.data = d->work.data = d;
	find_segments(d, found);
	return d;
}
