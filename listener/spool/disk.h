/* disk.h: writes, reads and removes segments on another thread, so that the loop never waits for a disk. */
#ifndef WSONCE_DISK_H
#define WSONCE_DISK_H

#include <uv.h>

#include "base/list.h"
#include "spool/segment.h"

struct disk;

enum disk_task {
	DISK_BEGIN,  /* begins the segment of `head` */
	DISK_APPEND, /* adds `bytes`, whole records up to the ordinal `last`, to the segment that was begun last */
	DISK_END,    /* that segment has ended, with head.count records */
	DISK_REMOVE, /* removes the segment of `head`, or keeps it by another name if `flag` is set */
	DISK_READ,   /* reads `len` bytes of records or more of the segment head.first, from where the last such job of
			it ended; from its beginning if `flag` is set, or the last one was of another segment */
	DISK_SYNC,   /* what was written goes to the disk */
	DISK_CLOSE,  /* ends, as the last job; the disk is freed after the call that answers it */
};

/* What is to be done, and then what became of it. After a DISK_BEGIN or DISK_APPEND with an error, what it was to write
 * is not in the file, and all DISK_APPEND fail until the next DISK_BEGIN; so they do after such a DISK_SYNC. */
struct disk_job {
	struct list link;
	enum disk_task task;
	struct segment_head head;
	uint64_t last;
	char *bytes;  /* freed with the job; of a DISK_READ, what was read: whole records */
	size_t len;   /* of them */
	bool flag;    /* of a DISK_READ that is done: the segment has no more */
	size_t wrong; /* of a DISK_READ: places where bytes were no record */
	int error;    /* errno, or 0 */
};

/* On the loop, in the order of the jobs. The job lives for the call. */
typedef void disk_cb(void *arg, const struct disk_job *job);
typedef void disk_found_cb(void *arg, const struct segment_head *head, uint64_t bytes);

/* Locks the directory, which is made if it is not there, and calls found for each of its segments, in order, with their
 * counts, and with 0 for each other file with such a name. Returns NULL and a sentence in error if it is unusable. */
struct disk *disk_open(uv_loop_t *loop, const char *dir, int64_t sync_ms, disk_cb *done, disk_found_cb *found,
		       void *arg, char *error, size_t size);

/* Does this after all that was asked before. job is copied. */
void disk_ask(struct disk *d, const struct disk_job *job);

#endif
