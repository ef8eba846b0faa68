/* segments.c owns the directory into which `wsonce record` writes segments, and the lock of such a directory. */
#include "commands/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "commands/dispatch.h"
#include "spool/segment.h"

struct segments {
	const char *dir, *source;
	int lock;
	int error; /* errno of a failed write */
	int64_t rotate_us;
	FILE *file; /* NULL: the next message begins a segment */
	struct segment_head head;
	size_t size;        /* size of the segment */
	uint64_t ordinal;   /* ordinal of the next record */
	struct bytes bytes; /* bytes of a record */
};

int segments_lock(const char *dir)
{
	AUTO_FREE char *path = memory_printf("%s/" SEGMENT_LOCK, dir);
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	dispatch_fail("%s cannot be used: %s", dir, errno == EWOULDBLOCK ? "another process uses it" : strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

struct segments *segments_open(const char *dir, const char *source, int64_t rotate_us)
{
	int lock = mkdir(dir, 0700) == 0 || errno == EEXIST
			   ? segments_lock(dir)
			   : -dispatch_fail("%s cannot be made: %s", dir, strerror(errno));
	struct segments *s;

	if (lock < 0)
		return NULL;
	s = memory_calloc(1, sizeof(*s));
	*s = (struct segments){.dir = dir, .source = source, .lock = lock, .rotate_us = rotate_us};
	return s;
}

/* Writes the head, and once more with the count when the segment has ended. */
static bool write_head(struct segments *s)
{
	char bytes[SEGMENT_HEAD];

	segment_head_write(bytes, &s->head);
	rewind(s->file);
	return fwrite(bytes, sizeof(bytes), 1, s->file) == 1;
}

/* Begins a segment. Ordinals begin with the time, so they are greater than those of existing segments. */
static bool begin_segment(struct segments *s, int64_t now_us)
{
	char *path;
	int fd;

	if (s->ordinal < (uint64_t)now_us)
		s->ordinal = (uint64_t)now_us;
	s->head = (struct segment_head){.first = s->ordinal, .oldest_us = now_us};
	uv_random(NULL, NULL, &s->head.salt, sizeof(s->head.salt), 0, NULL);
	s->size = 0;
	path = memory_printf("%s/" SEGMENT_NAME, s->dir, (unsigned long long)s->ordinal);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	s->file = fd < 0 ? NULL : fdopen(fd, "w");
	free(path);
	return s->file && write_head(s);
}

static bool end_segment(struct segments *s)
{
	bool is_whole, is_closed;

	s->head.count = s->ordinal - s->head.first;
	is_whole = write_head(s);
	is_closed = fclose(s->file) == 0;
	s->file = NULL;
	return is_whole && is_closed;
}

static bool write_record(struct segments *s, struct record *r)
{
	size_t size = record_size(r);

	if (s->file && (s->size >= SEGMENT_MOST || r->came_us - s->head.oldest_us >= s->rotate_us) && !end_segment(s))
		return false;
	if (!s->file && !begin_segment(s, r->came_us))
		return false;
	r->ordinal = s->ordinal++;
	s->bytes.len = 0;
	record_write(bytes_reserve(&s->bytes, size), r, s->head.salt);
	s->size += size;
	return fwrite(s->bytes.at, size, 1, s->file) == 1;
}

bool segments_add(struct segments *s, const char *message, size_t len)
{
	struct record r = {.came_us = clock_us(CLOCK_REALTIME),
			   .source = {s->source, strlen(s->source)},
			   .message = {message, len}};

	if (!s->error && !write_record(s, &r))
		s->error = errno;
	return !s->error;
}

int segments_close(struct segments *s)
{
	int error = s->error;

	if (s->file && !end_segment(s) && !error)
		error = errno;
	close(s->lock);
	bytes_free(&s->bytes);
	free(s);
	errno = error;
	return error ? -1 : 0;
}
