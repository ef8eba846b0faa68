/* segment.h: reads the records of a segment, whatever became of the file. */
#ifndef WSONCE_SEGMENT_H
#define WSONCE_SEGMENT_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spool/record.h"

#define SEGMENT_NAME "%020llu.segment" /* the ordinal of its first record */
#define SEGMENT_BAD  ".bad"            /* added to the name of one that had unreadable records */
#define SEGMENT_LOCK "lock"            /* beside them: who uses the directory has it locked, flock(2) */
#define SEGMENT_MOST (64u << 20)       /* a segment ends behind the record that reaches this */

struct segment_reader {
	/* Reads up to n bytes at an offset, as pread(2). */
	ssize_t (*read)(void *source, char *to, size_t n, off_t at);
	void *source;
	struct segment_head head;
	char *bytes; /* the file from offset - (end - begin) on */
	size_t begin, end, room;
	off_t offset;      /* of the next byte to read */
	const char *whole; /* the last record, with its head; until the next call */
	size_t size;
	size_t wrong;    /* places where bytes were skipped because no record was readable there */
	size_t torn;     /* bytes at the end that are no whole record */
	size_t skipping; /* bytes passed over since the last record */
	int error;       /* errno of SEGMENT_FAILED */
};

enum segment_step { SEGMENT_RECORD, SEGMENT_END, SEGMENT_FAILED };

/* Reads the head. SEGMENT_END: the file is too short to have one. SEGMENT_FAILED with error 0: it is not a segment. */
enum segment_step segment_open(struct segment_reader *s);

/* The next record, which lives until the next call. After SEGMENT_END more may be read once the file has grown. */
enum segment_step segment_next(struct segment_reader *s, struct record *r);

void segment_close(struct segment_reader *s);

struct segment_file {
	int fd;     /* or -1 */
	off_t size; /* when it was opened: what it grows by meanwhile is not read, since it may be half a record */
};

/* Returns 0 or an errno. */
int segment_open_file(struct segment_file *f, int dir, const char *name);
/* For a reader whose source is such a file. */
ssize_t segment_pread(void *file, char *to, size_t n, off_t at);

/* For scandir(3). */
int segment_is_entry(const struct dirent *entry);

#endif
