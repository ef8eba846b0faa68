/* segment.h: reads the records of a segment, even if the file is damaged. */
#ifndef WSONCE_SEGMENT_H
#define WSONCE_SEGMENT_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spool/record.h"

#define SEGMENT_NAME "%020llu.segment" /* the ordinal of its first record */
#define SEGMENT_BAD  ".bad"            /* suffix of a segment that had unreadable records */
#define SEGMENT_LOCK "lock"            /* the process that uses the directory holds its flock(2) */
#define SEGMENT_MOST (64u << 20)       /* bytes: a segment ends with the record that reaches this */

struct segment_reader {
	/* Reads up to n bytes at an offset, like pread(2). */
	ssize_t (*read)(void *source, char *to, size_t n, off_t at);
	void *source;
	struct segment_head head;
	char *bytes; /* buffer; begin to end is what has been read ahead */
	size_t begin, end, room;
	off_t offset;      /* where the next read starts */
	const char *whole; /* bytes of the last record, valid until the next call */
	size_t size;
	size_t wrong;    /* runs of bytes skipped because they are not a record */
	size_t torn;     /* bytes of an incomplete record at the end */
	size_t skipping; /* bytes skipped since the last record */
	int error;       /* errno after SEGMENT_FAILED */
};

enum segment_step { SEGMENT_RECORD, SEGMENT_END, SEGMENT_FAILED };

/* Reads the head. SEGMENT_END: the file is too short for one. SEGMENT_FAILED with error 0: not a segment. */
enum segment_step segment_open(struct segment_reader *s);

/* Reads the next record, which is valid until the next call. After SEGMENT_END, call again when the file has grown. */
enum segment_step segment_next(struct segment_reader *s, struct record *r);

void segment_close(struct segment_reader *s);

struct segment_file {
	int fd;     /* or -1 */
	off_t size; /* when it was opened; later bytes are not read, since they may be half a record */
};

/* Opens a segment for segment_pread. Returns 0 or an errno. */
int segment_open_file(struct segment_file *f, int dir, const char *name);
/* segment_reader.read for a struct segment_file. */
ssize_t segment_pread(void *file, char *to, size_t n, off_t at);

/* A filter for scandir(3): true for segments, and for files that may be segments under another name. */
int segment_is_entry(const struct dirent *entry);
/* True if this is the name of a segment. */
bool segment_has_name(const char *file);

#endif
