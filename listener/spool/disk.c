/* disk.c owns a directory of segments: its lock and its files. Jobs run on one thread of libuv's pool. Jobs that are
 * queued meanwhile run together afterwards. */
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

#define NAME_SIZE 40
#define SIZE_MOST (INT64_C(1) << 30) /* more than SEGMENT_MOST and the largest message; searching it takes seconds */

struct disk {
	uv_loop_t *loop;
	int dir; /* the locked directory, even if it is moved */
	int lock;
	int64_t sync_ms;
	disk_cb *done;
	void *arg;
	struct list asked, at_work;
	uv_work_t work;
	uv_timer_t sync_timer;
	bool is_working;

	/* Used by the thread while is_working: */
	int fd;  /* current segment, or -1 */
	int why; /* errno: why fd is -1 */
	struct segment_head head;
	off_t size;
	struct segment_file file; /* being read */
	struct segment_reader reader;
};

/* --- the thread --- */

static const char *name_of(char name[NAME_SIZE], uint64_t first, const char *more)
{
	snprintf(name, NAME_SIZE, SEGMENT_NAME "%s", (unsigned long long)first, more);
	return name;
}

/* Returns 0 or an errno: ENOENT if the file was deleted. */
static int write_at(int fd, const char *bytes, size_t len, off_t at)
{
	struct stat st;

	if (fstat(fd, &st) || !st.st_nlink)
		return ENOENT;
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

/* Closes the current segment. why is an errno, or 0 if nothing failed. Returns why. */
static int leave_segment(struct disk *d, int why)
{
	/* Cut off an incomplete record. EIO: what was not synced is in doubt. */
	if (why && (ftruncate(d->fd, d->size) || fdatasync(d->fd))) {
		log_warn("cannot truncate a spool segment", "reason=%s", strerror(errno));
		why = EIO;
	}
	close(d->fd);
	d->fd = -1;
	return d->why = why;
}

static int begin_segment(struct disk *d, const struct segment_head *head)
{
	char name[NAME_SIZE], bytes[SEGMENT_HEAD];
	int error;

	d->fd = openat(d->dir, name_of(name, head->first, ""), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (d->fd < 0)
		return d->why = errno;
	d->head = *head;
	d->size = SEGMENT_HEAD;
	segment_head_write(bytes, head);
	error = write_at(d->fd, bytes, sizeof(bytes), 0);
	if (!error && (fsync(d->dir) == 0 || errno == EINVAL)) /* EINVAL: the file system cannot sync directories */
		return 0;
	error = error ? error : errno;
	unlinkat(d->dir, name, 0);
	return leave_segment(d, error);
}

static int append(struct disk *d, const char *bytes, size_t len)
{
	int error = d->fd < 0 ? d->why : write_at(d->fd, bytes, len, d->size);

	if (error)
		return d->fd < 0 ? error : leave_segment(d, error);
	d->size += (off_t)len;
	return 0;
}

static int sync_segment(struct disk *d)
{
	return d->fd >= 0 && fdatasync(d->fd) ? leave_segment(d, errno) : 0;
}

/* Syncs first: the count must not reach the disk before its records. If the count cannot be written, the next start
 * counts the records. */
static int end_segment(struct disk *d, uint64_t count)
{
	char bytes[SEGMENT_HEAD];
	int error = sync_segment(d);

	if (d->fd < 0)
		return error;
	d->head.count = count;
	segment_head_write(bytes, &d->head);
	write_at(d->fd, bytes, sizeof(bytes), 0);
	return leave_segment(d, 0);
}

static void stop_reading(struct disk *d)
{
	if (d->file.fd >= 0)
		close(d->file.fd);
	d->file.fd = -1;
	segment_close(&d->reader);
}

/* Reads the head. Returns 0 or an errno: EBADMSG if the file is not this segment, EFBIG if it is larger than any. */
static int start_reading(struct disk *d, uint64_t first)
{
	char name[NAME_SIZE];

	stop_reading(d);
	d->reader = (struct segment_reader){.read = segment_pread, .source = &d->file};
	if (segment_open_file(&d->file, d->dir, name_of(name, first, "")))
		return errno;
	if (segment_open(&d->reader) == SEGMENT_RECORD && d->reader.head.first == first)
		return d->file.size > SIZE_MOST ? EFBIG : 0;
	return d->reader.error ? d->reader.error : EBADMSG;
}

static void take_away(const struct disk *d, uint64_t first, bool is_bad)
{
	char name[NAME_SIZE], bad[NAME_SIZE];

	name_of(name, first, "");
	if (is_bad)
		renameat(d->dir, name, d->dir, name_of(bad, first, SEGMENT_BAD));
	else
		unlinkat(d->dir, name, 0);
}

/* Does not touch another file that has taken its name. */
static void remove_segment(struct disk *d, const struct segment_head *head, bool is_bad)
{
	if (start_reading(d, head->first) == 0 && d->reader.head.salt == head->salt)
		take_away(d, head->first, is_bad);
	stop_reading(d);
}

static int read_segment(struct disk *d, struct disk_job *j)
{
	bool is_begun = d->file.fd >= 0 && d->reader.head.first == j->head.first && !j->flag;
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
	if (error || j->flag)
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
		j->error = end_segment(d, j->head.count);
		return;
	case DISK_REMOVE:
		remove_segment(d, &j->head, j->flag);
		return;
	case DISK_READ:
		j->error = read_segment(d, j);
		return;
	case DISK_SYNC:
		j->error = sync_segment(d);
		return;
	case DISK_CLOSE:
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

static void close_dir(struct disk *d)
{
	if (d->lock >= 0)
		close(d->lock);
	if (d->dir >= 0)
		close(d->dir);
	stop_reading(d);
	free(d);
}

static void on_closed(uv_handle_t *handle)
{
	struct disk *d = handle->data;

	d->done(d->arg, &(const struct disk_job){.task = DISK_CLOSE});
	close_dir(d);
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
	if (j->task == DISK_CLOSE)
		uv_timer_stop(&d->sync_timer);
	else if (j->task == DISK_APPEND && !uv_is_active((uv_handle_t *)&d->sync_timer))
		uv_timer_start(&d->sync_timer, on_sync_timer, (uint64_t)d->sync_ms, 0);
	list_append(&d->asked, &j->link);
	begin_work(d);
}

/* --- the start --- */

/* Reads the head of a segment and counts its records if the head has no count. head->count 0: nothing to feed. Returns
 * its size in bytes. */
static uint64_t look(struct disk *d, uint64_t first, struct segment_head *head)
{
	struct segment_reader *s = &d->reader;
	enum segment_step step = SEGMENT_RECORD;
	struct record r;
	int error = start_reading(d, first);

	*head = s->head;
	while (!error && !s->head.count && (step = segment_next(s, &r)) == SEGMENT_RECORD)
		head->count = r.ordinal - first + 1;
	if (!error && !s->head.count) /* its process was killed and may not have synced it */
		(void)fdatasync(d->file.fd);
	if (s->torn)
		log_warn("the last record of a spool segment is incomplete, and was ignored", "segment=%llu bytes=%zu",
			 (unsigned long long)first, s->torn);
	error = step == SEGMENT_FAILED ? s->error : error;
	if (error && (error != EBADMSG || d->file.size)) {
		log_error("a file in the spool cannot be read, and is left alone", "segment=%llu reason=%s",
			  (unsigned long long)first, error == EBADMSG ? "it is not a segment" : strerror(error));
		head->count = 0;
	} else if (!head->count) {
		take_away(d, first, s->torn);
	}
	stop_reading(d);
	return (uint64_t)d->file.size;
}

static int find_segments(struct disk *d, const char *dir, disk_found_cb *found)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, segment_is_entry, alphasort);

	for (int i = 0; i < n; i++) {
		unsigned long long first = strtoull(entries[i]->d_name, NULL, 10);
		const char *name = entries[i]->d_name;
		struct segment_head head = {0};
		uint64_t bytes;

		if (segment_has_name(name)) {
			bytes = strstr(name, SEGMENT_BAD) ? 0 : look(d, first, &head);
			head.first = first;
			found(d->arg, &head, bytes);
		} else {
			log_warn("a file in the spool does not have the name of a segment, and is left alone",
				 "file=%s", name);
		}
		free(entries[i]);
	}
	free(entries);
	return n;
}

/* Returns NULL, or what failed, with errno set. Refuses a directory of another user, who could take files away,
 * with errno 0. */
static const char *open_dir(struct disk *d, const char *dir, disk_found_cb *found)
{
	struct stat st;

	if (mkdir(dir, 0700) && errno != EEXIST)
		return "cannot make";
	d->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->dir < 0 || fstat(d->dir, &st))
		return "cannot open";
	errno = 0;
	if (st.st_uid && st.st_uid != geteuid())
		return "another user owns";
	d->lock = openat(d->dir, SEGMENT_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (d->lock < 0)
		return "cannot write to";
	if (flock(d->lock, LOCK_EX | LOCK_NB))
		return "cannot lock";
	return find_segments(d, dir, found) < 0 ? "cannot list" : NULL;
}

struct disk *disk_open(uv_loop_t *loop, const char *dir, int64_t sync_ms, disk_cb *done, disk_found_cb *found,
		       void *arg, char *error, size_t size)
{
	struct disk *d = memory_calloc(1, sizeof(*d));
	const char *what;

	d->loop = loop;
	d->sync_ms = sync_ms;
	d->done = done;
	d->arg = arg;
	d->dir = d->lock = d->fd = d->file.fd = -1;
	what = open_dir(d, dir, found);
	if (what) {
		snprintf(error, size, "%s the directory of --spool, %s: %s", what, dir,
			 errno == EWOULDBLOCK ? "another process uses it; give each listener a directory of its own"
			 : errno              ? strerror(errno)
					      : "make one of your own");
		close_dir(d);
		return NULL;
	}
	list_init(&d->asked);
	list_init(&d->at_work);
	uv_timer_init(loop, &d->sync_timer);
	d->sync_timer.data = d->work.data = d;
	return d;
}
