/* segment.c finds the records of a segment. After a damaged record it searches for the segment's salt, which starts
 * each record. What follows the last record is a torn tail. */
#include "spool/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#define READ_BYTES (256u << 10)

int segment_open_file(struct segment_file *f, int dir, const char *name)
{
	f->fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	f->size = f->fd < 0 ? 0 : lseek(f->fd, 0, SEEK_END);
	return f->fd < 0 ? errno : 0;
}

ssize_t segment_pread(void *file, char *to, size_t n, off_t at)
{
	const struct segment_file *f = file;
	ssize_t got;

	do
		got = pread(f->fd, to, f->size - at < (off_t)n ? (size_t)(f->size - at) : n, at);
	while (got < 0 && errno == EINTR);
	return got;
}

int segment_is_entry(const struct dirent *entry)
{
	return strstr(entry->d_name, ".segment") != NULL;
}

bool segment_has_name(const char *file)
{
	char name[64];
	size_t len = (size_t)snprintf(name, sizeof(name), SEGMENT_NAME, strtoull(file, NULL, 10));

	return strncmp(file, name, len) == 0 && (!file[len] || strcmp(file + len, SEGMENT_BAD) == 0);
}

/* Reads until n bytes are available at begin, or the file ends. Returns 0, or -1 and sets error. */
static int fill(struct segment_reader *s, size_t n)
{
	while (s->end - s->begin < n) {
		size_t kept = s->end - s->begin, room = n > READ_BYTES ? n : READ_BYTES;
		ssize_t got;

		if (s->begin && s->begin + n > s->room) {
			memmove(s->bytes, s->bytes + s->begin, kept);
			s->begin = 0;
			s->end = kept;
		}
		/* Doubling keeps a corrupt length from taking more memory than the file has bytes. */
		if (s->begin + n > s->room && s->end == s->room) {
			s->room = 2 * s->room > READ_BYTES ? 2 * s->room : READ_BYTES;
			s->room = s->room > room ? room : s->room;
			s->bytes = memory_realloc(s->bytes, s->room);
		}
		got = s->read(s->source, s->bytes + s->end, s->room - s->end, s->offset);
		if (got < 0) {
			s->error = errno;
			return -1;
		}
		if (got == 0)
			return 0;
		s->end += (size_t)got;
		s->offset += got;
	}
	return 0;
}

enum segment_step segment_open(struct segment_reader *s)
{
	if (fill(s, SEGMENT_HEAD))
		return SEGMENT_FAILED;
	if (s->end - s->begin < SEGMENT_HEAD)
		return SEGMENT_END;
	if (!segment_head_read(s->bytes + s->begin, &s->head))
		return SEGMENT_FAILED;
	s->begin += SEGMENT_HEAD;
	return SEGMENT_RECORD;
}

/* Skips to the next byte that may start the salt. */
static void skip(struct segment_reader *s)
{
	char first = (char)s->head.salt;
	const char *from = s->bytes + s->begin + 1;
	const char *next = memchr(from, first, s->end - s->begin - 1);
	size_t by = next ? (size_t)(next - from) + 1 : s->end - s->begin;

	s->skipping += by;
	s->begin += by;
}

enum segment_step segment_next(struct segment_reader *s, struct record *r)
{
	size_t need = RECORD_HEAD;

	for (;;) {
		size_t have;

		if (fill(s, need))
			return SEGMENT_FAILED;
		have = s->end - s->begin;
		if (!have)
			break;
		switch (record_read(s->bytes + s->begin, have, s->head.salt, r, &need)) {
		case RECORD_WHOLE:
			s->whole = s->bytes + s->begin;
			s->size = need;
			s->begin += need;
			s->wrong += s->skipping != 0;
			s->skipping = 0;
			return SEGMENT_RECORD;
		case RECORD_SHORT:
			if (need > have && fill(s, need) == 0 && s->end - s->begin >= need)
				continue;
			if (s->error)
				return SEGMENT_FAILED;
			skip(s);
			break;
		case RECORD_WRONG:
			skip(s);
			break;
		}
		need = RECORD_HEAD;
	}
	s->torn = s->skipping;
	return SEGMENT_END;
}

void segment_close(struct segment_reader *s)
{
	free(s->bytes);
	s->bytes = NULL;
}
